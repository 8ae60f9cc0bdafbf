"""Opens the files in Vectors/. This reader was written only from the article “The formats, byte by byte”.

Prints the master key, and for each sealed file the BLAKE2b digest of its content and the digest of its seals.
"""

import hashlib
import json
import pathlib
import struct
import sys
import unicodedata
import uuid

import zstandard
from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_decrypt, crypto_pwhash_alg, crypto_pwhash_ALG_ARGON2ID13
from nacl.exceptions import CryptoError

VECTORS = pathlib.Path(__file__).parent / "Vectors"


class Refused(Exception):
    pass


def require(condition, reason):
    if not condition:
        raise Refused(reason)


def blake2b(message, key=b"", size=32):
    return hashlib.blake2b(message, key=key, digest_size=size).digest()


def decrypt(sealed, associated, nonce, key):
    try:
        return crypto_aead_xchacha20poly1305_ietf_decrypt(sealed, associated, nonce, key)
    except CryptoError as error:
        raise Refused("it isn't authentic") from error


def password_bytes(text):
    for end in ("\r\n", "\n"):
        if text.endswith(end):
            text = text[: -len(end)]
            break
    encoded = unicodedata.normalize("NFC", text).encode()
    require(1 <= len(encoded) <= 65536, "password length")
    return encoded


def open_key_file(data, password, registration, epoch):
    require(data[:16] == b"storesync key\0\0\0", "magic")
    version, suite = struct.unpack_from("<HH", data, 16)
    require((version, suite) == (1, 1), "version")
    require(len(data) == 264 and blake2b(data[:232]) == data[232:], "checksum")
    require(uuid.UUID(bytes=data[20:36]) == epoch, "epoch")
    passes, memory = struct.unpack_from("<II", data, 72)
    require(2 <= passes <= 20 and 65536 <= memory <= 1048576, "parameters")
    key = crypto_pwhash_alg(
        32, password_bytes(password), data[80:96], passes, memory * 1024, crypto_pwhash_ALG_ARGON2ID13
    )
    plain = decrypt(data[120:200], data[:120], data[96:120], key)
    master = plain[:32]
    require(plain[32:] == bytes(32), "zeros")
    require(blake2b(data[:200], key=master) == data[200:232], "proof")
    require(blake2b(registration) == data[36:68], "registration")
    return master


def check_salt_file(data, epoch, salt):
    require(data[:16] == b"storesync salt\0\0", "magic")
    require(struct.unpack_from("<HH", data, 16) == (1, 0), "version")
    require(len(data) == 84 and blake2b(data[:52]) == data[52:], "checksum")
    require(data[20:36] == epoch.bytes and data[36:52] == salt, "fields")


def encode_context(context):
    def field(value):
        return struct.pack("<I", len(value)) + value

    def text(name):
        return field(context.get(name, "").encode())

    generation = struct.pack("<Q", context["generation"]) if "generation" in context else b""
    return (
        text("application")
        + text("document")
        + text("integrityKey")
        + text("client")
        + text("role")
        + field(generation)
        + text("upload")
    )


def open_sealed(data, master, context, epoch):
    require(data[:16] == b"storesync sealed", "magic")
    version, suite, exponent, compression, zero = struct.unpack_from("<HHBBH", data, 16)
    require((version, suite) == (1, 1), "version")
    require(12 <= exponent <= 20 and compression in (0, 1) and zero == 0, "header")
    chunk_size = 1 << exponent
    require(data[24:40] == epoch.bytes, "epoch")
    both = blake2b(data[:72] + encode_context(context), key=master, size=64)
    require(both[32:] == data[72:104], "key check")
    content, offset, index, last = b"", 104, 0, False
    seals = b"storesync seals\0"
    while not last:
        require(len(data) >= offset + 4, "truncated")
        (word,) = struct.unpack_from("<I", data, offset)
        length, compressed, last = word & 0xFFFFFF, bool(word >> 30 & 1), bool(word >> 31)
        require(word >> 24 & 0x3F == 0 and length <= chunk_size, "word")
        require(compressed or last or length == chunk_size, "word")
        require(not compressed or (compression == 1 and length < chunk_size), "word")
        end = offset + 28 + length + 16
        require(len(data) >= end, "truncated")
        associated = struct.pack("<Q", index) + data[offset : offset + 4]
        body = decrypt(data[offset + 28 : end], associated, data[offset + 4 : offset + 28], both[:32])
        if compressed:
            body = zstandard.ZstdDecompressor().decompress(body, max_output_size=chunk_size)
        require(len(body) == chunk_size or (last and len(body) < chunk_size), "chunk size")
        require(len(body) > 0 or index == 0, "empty chunk")
        content += body
        seals += data[offset + 4 : offset + 28] + data[end - 16 : end]
        offset, index = end, index + 1
    require(offset == len(data), "something follows")
    return content, blake2b(seals).hex()


def main():
    vectors = json.loads((VECTORS / "vectors.json").read_text())
    epoch = uuid.UUID(vectors["epoch"])
    key_file = (VECTORS / "test.ticdsync").read_bytes()
    master = open_key_file(key_file, vectors["password"], vectors["registration"].encode(), epoch)
    check_salt_file((VECTORS / "salt.ticdsync").read_bytes(), epoch, key_file[80:96])
    print("key", master.hex())
    for name, context in vectors["sealed"].items():
        content, seals = open_sealed((VECTORS / f"{name}.sealed").read_bytes(), master, context, epoch)
        require(seals == context["seals"], "seals")
        print(name, blake2b(content).hex(), seals)
    try:
        open_sealed((VECTORS / "raw.sealed").read_bytes(), master, vectors["sealed"]["zstd"], epoch)
    except Refused:
        print("swapped refused")
    return 0


sys.exit(main())
