import AsyncHTTPClient
import NIOCore
import NIOHTTP1

/// A limit for the responses with a status below 200 that a server may send before its answer.
///
/// Each of them restarts AsyncHTTPClient's limit for reading, so that a server could keep a request waiting forever.
final class InterimResponseLimit: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    /// The maximum number: for half an hour, a server may report every 20 seconds that it is still processing a request.
    private static let maximum = 100

    private var count = 0

    /// Installs a limit in a connection that AsyncHTTPClient has set up.
    static func install(in channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.submit {
            let handlers = channel.pipeline.syncOperations
            let decoder = try handlers.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
            try handlers.addHandler(InterimResponseLimit(), position: .after(decoder))
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = unwrapInboundIn(data) {
            count = head.status.code < 200 ? count + 1 : 0
            guard count <= Self.maximum else { return context.fireErrorCaught(HTTPClientError.readTimeout) }
        }
        context.fireChannelRead(data)
    }
}
