package greenwave.testbed;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * Services in series on real Dubbo over loopback: direct URLs, no registry, the pool {@code deadline}.
 *
 * <p>A handler occupies its thread during its work, then calls the next service and returns the future, so
 * the thread is free while later services work. Each service has its own port and pool, each hop its own
 * connection. All of them end with the process, since an orderly shutdown of Dubbo takes half a minute.
 */
public final class Dubbo {
    private Dubbo() {}

    /** The runner; see spec/testbed.md. */
    public static void main(String[] arguments) {
        Runner.main(Dubbo::run);
    }

    static void run(Plan plan, Lines lines) throws RunnerException, IOException {
        Plan.Settings settings = plan.settings();
        for (Plan.Stage stage : settings.stages()) {
            if (stage.parts() != 1) {
                throw new RunnerException(
                        "stage " + stage.name() + ": parts " + stage.parts() + " is not 1, services in series",
                        "the world of tonic or of Storm for units");
            }
        }
        Map<String, String> parameters = parameters(settings);
        Run run = new Run(plan, lines);
        DubboNode node = new DubboNode("testbed");
        int port = 0;
        for (int stage = settings.stages().size() - 1; stage >= 0; stage--) {
            Plan.Stage made = settings.stages().get(stage);
            Service next = port == 0 ? null : node.call(Service.class, port, parameters);
            Service service = service(run, stage, next);
            port = node.serve(Service.class, service, made.threads(), settings.capacity(), parameters);
        }
        Service first = node.call(Service.class, port, parameters);
        for (int call = 0; call < WARM_UPS; call++) {
            first.warm(call).join();
        }
        run.begin();
        run.all(first::work);
    }

    /** The service at {@code stage}, which calls {@code next}; null for the last one. */
    private static Service service(Run run, int stage, Service next) {
        return new Service() {
            @Override
            public CompletableFuture<Integer> work(int request) {
                run.work(request, stage);
                run.served(request, stage);
                return next == null ? CompletableFuture.completedFuture(request) : next.work(request);
            }

            @Override
            public CompletableFuture<Integer> warm(int call) {
                return next == null ? CompletableFuture.completedFuture(call) : next.warm(call);
            }
        };
    }

    private static Map<String, String> parameters(Plan.Settings settings) {
        return Map.of(
                "deadline.order", settings.order(),
                "deadline.shedding", settings.shedding(),
                "deadline.timeout", Long.toString(settings.ageMaxNs() / 1_000_000),
                "deadline.trusted", "true");
    }

    /** The interface of each service; its arguments are numbers, since all services have the plan. */
    public interface Service {
        /** Works on request {@code request}, then has the later services work on it. */
        CompletableFuture<Integer> work(int request);

        /**
         * Calls the next service without work, so that all services are connected and compiled before the
         * first request.
         */
        CompletableFuture<Integer> warm(int call);
    }

    /** Number of warm-up calls through all services before the first request. */
    private static final int WARM_UPS = 300;
}
