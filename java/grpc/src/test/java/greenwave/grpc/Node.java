package greenwave.grpc;

import greenwave.deadline.DeadlineQueue;
import greenwave.deadline.Limits;
import greenwave.deadline.Order;
import greenwave.deadline.Shedding;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** A server and its clients, over real sockets on loopback; its method receives and returns texts. */
final class Node implements AutoCloseable {
    private static final MethodDescriptor.Marshaller<String> TEXT = new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(String text) {
            return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public String parse(InputStream bytes) {
            try {
                return new String(bytes.readAllBytes(), StandardCharsets.UTF_8);
            } catch (IOException cut) {
                throw new UncheckedIOException(cut);
            }
        }
    };

    /** The method: one text in, one text out. Messages are bytes of UTF-8, so no generated code is needed. */
    static final MethodDescriptor<String, String> GO = method("Step/Go", MethodDescriptor.MethodType.UNARY);
    /** The streaming method: texts in, texts out. */
    static final MethodDescriptor<String, String> CHAT = method("Step/Chat", MethodDescriptor.MethodType.BIDI_STREAMING);

    final DeadlineServer deadlines;
    private final List<AutoCloseable> open = new ArrayList<>();
    volatile Function<String, CompletableFuture<String>> handler = CompletableFuture::completedFuture;

    Node(Limits limits, int capacity) {
        DeadlineQueue.Settings queue =
                new DeadlineQueue.Settings(capacity, Order.EDF, Shedding.INFEASIBLE, 60_000_000_000L);
        deadlines = new DeadlineServer(limits, queue, 1);
        open.add(deadlines);
    }

    /** Serves with one thread; returns the port. */
    int serve() throws IOException {
        NettyServerBuilder builder = builder();
        deadlines.on(builder);
        return start(builder);
    }

    NettyServerBuilder builder() {
        return NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
                .maxInboundMetadataSize(4 << 20)
                .addService(ServerServiceDefinition.builder("Step")
                        .addMethod(GO, ServerCalls.asyncUnaryCall((text, answer) -> complete(text, answer)))
                        .addMethod(CHAT, ServerCalls.asyncBidiStreamingCall(this::chat))
                        .build());
    }

    int start(NettyServerBuilder builder) throws IOException {
        Server server = builder.build().start();
        open.add(0, server::shutdownNow);
        return server.getPort();
    }

    private void complete(String text, StreamObserver<String> answer) {
        handler.apply(text).whenComplete((response, failure) -> {
            if (failure == null) {
                answer.onNext(response);
                answer.onCompleted();
            } else {
                answer.onError(failure);
            }
        });
    }

    private StreamObserver<String> chat(StreamObserver<String> answers) {
        return new StreamObserver<>() {
            @Override
            public void onNext(String text) {
                answers.onNext(handler.apply(text).join());
            }

            @Override
            public void onError(Throwable gone) {}

            @Override
            public void onCompleted() {
                answers.onCompleted();
            }
        };
    }

    /** A channel to {@code port} through {@code interceptors}, the first of which is called first. */
    Channel channel(int port, ClientInterceptor... interceptors) {
        return channel(port, Map.of(), interceptors);
    }

    /** The same, with gRPC's service configuration {@code config}. */
    Channel channel(int port, Map<String, ?> config, ClientInterceptor... interceptors) {
        ManagedChannel channel = NettyChannelBuilder.forAddress(
                        new InetSocketAddress(InetAddress.getLoopbackAddress(), port))
                .usePlaintext()
                .defaultServiceConfig(config)
                .build();
        open.add(0, channel::shutdownNow);
        return ClientInterceptors.interceptForward(channel, interceptors);
    }

    static CompletableFuture<String> go(Channel channel, String text) {
        return go(channel, CallOptions.DEFAULT, text);
    }

    static CompletableFuture<String> go(Channel channel, CallOptions options, String text) {
        CompletableFuture<String> answer = new CompletableFuture<>();
        ClientCalls.asyncUnaryCall(channel.newCall(GO, options), text, into(answer));
        return answer;
    }

    /** Completes {@code answer} with the last text, when the call has ended. */
    static StreamObserver<String> into(CompletableFuture<String> answer) {
        return new StreamObserver<>() {
            private String last;

            @Override
            public void onNext(String response) {
                last = response;
            }

            @Override
            public void onError(Throwable failure) {
                answer.completeExceptionally(failure);
            }

            @Override
            public void onCompleted() {
                answer.complete(last);
            }
        };
    }

    @Override
    public void close() throws Exception {
        for (AutoCloseable each : open) {
            each.close();
        }
    }

    private static MethodDescriptor<String, String> method(String name, MethodDescriptor.MethodType type) {
        return MethodDescriptor.<String, String>newBuilder(TEXT, TEXT)
                .setFullMethodName(name)
                .setType(type)
                .build();
    }
}
