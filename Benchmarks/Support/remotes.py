"""The remotes of a benchmark: a folder, and servers on this machine. Each yields storesync's options and environment."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

from scripts import script

buckets = script("buckets")
WEED = buckets.WEED


@contextlib.contextmanager
def folder(place, _):
    (place / "share").mkdir()
    yield ["--remote", f"file://{place}/share"], {}


@contextlib.contextmanager
def seaweedfs(place, weed):
    with buckets.server(weed, place) as endpoint:
        yield ["--remote", "s3://benchmark/devices", "--endpoint", endpoint], {
            "AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET, "AWS_REGION": "us-east-1"}


@contextlib.contextmanager
def apache2(place, _):
    program = shutil.which("apache2", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None: sys.exit("apache2 isn't installed: run .ci/prepare")
    modules = "mpm_event authn_core authn_file authz_core authz_user auth_basic dav dav_fs alias".split()
    for name in ["share", "locks"]: (place / name).mkdir()
    # The password is “password”.
    (place / "passwords").write_text("user:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
    port, is_root = buckets.free_port(), os.geteuid() == 0
    (place / "httpd.conf").write_text("\n".join([
        *(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in modules),
        f'ServerRoot "{place}"', f"Listen 127.0.0.1:{port}", "ServerName localhost", f'PidFile "{place}/pid"',
        f'ErrorLog "{place}/log"', "User www-data\nGroup www-data" if is_root else "", f'DAVLockDB "{place}/locks/lock"',
        "AllowEncodedSlashes NoDecode", f'Alias /dav "{place}/share"', "<Directory />\nRequire all denied\n</Directory>",
        f'<Directory "{place}/share">\nRequire all granted\n</Directory>',
        f'<Location /dav>\nDAV On\nAuthType Basic\nAuthName realm\nAuthUserFile "{place}/passwords"\nRequire valid-user\n</Location>\n']))
    if is_root:
        place.chmod(0o755)
        for name in ["share", "locks"]: shutil.chown(place / name, "www-data", "www-data")
    process = subprocess.Popen([program, "-f", str(place / "httpd.conf"), "-D", "FOREGROUND"], start_new_session=True)
    try:
        for _ in range(100):
            if buckets.status("GET", f"http://127.0.0.1:{port}/dav/") == 401: break
            time.sleep(0.1)
        else: sys.exit(f"apache2 doesn't answer: {(place / 'log').read_text()[-2000:]}")
        yield ["--remote", f"webdav://user@127.0.0.1:{port}/dav"], {"STORESYNC_WEBDAV_PASSWORD": "password"}
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


REMOTES = {"folder": folder, "apache2": apache2, "seaweedfs": seaweedfs}
