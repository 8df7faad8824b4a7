package greenwave.dubbo;

import greenwave.deadline.BudgetValidator;
import greenwave.deadline.Gate;
import greenwave.deadline.Shedding;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import greenwave.deadline.thread.Call;
import greenwave.deadline.thread.Deadlines;
import java.util.concurrent.Executor;
import org.apache.dubbo.remoting.http12.HttpHeaders;
import org.apache.dubbo.remoting.http12.RequestMetadata;
import org.apache.dubbo.rpc.RpcException;

/**
 * Executor of one request of the Triple protocol: its events wait in the pool's queue until its handler begins.
 *
 * <p>Dubbo passes the events of a request (headers, data) as they arrive. A turn before the request is complete
 * calls no handler, and the rest of the request gets another one. After the handler has begun, events go first,
 * since a request in service holds memory. The events of a request that is shed run as well, so that Dubbo answers
 * it; {@link ProviderFilter} keeps them from the handler.
 */
final class TripleRequest implements Executor {
    private static final ThreadLocal<TripleRequest> CURRENT = new ThreadLocal<>();

    private final DeadlineThreadPool.Pool pool;
    private final Gate.Arrival arrival;
    private volatile boolean begun;
    private volatile RpcException refusal;

    private TripleRequest(DeadlineThreadPool.Pool pool, Gate.Arrival arrival) {
        this.pool = pool;
        this.arrival = arrival;
    }

    /** The request with the headers {@code metadata}, which arrives at {@code pool} now. */
    static TripleRequest arrive(DeadlineThreadPool.Pool pool, RequestMetadata metadata) {
        HttpHeaders headers = metadata.headers();
        BudgetValidator.Received received = new BudgetValidator.Received(
                headers.getFirst(BudgetField.HEADER),
                headers.getFirst(GrpcTimeout.HEADER),
                headers.getFirst(EnvoyTimeout.HEADER));
        return new TripleRequest(pool, pool.gate().arrive(Deadlines.now(), received, metadata.path()));
    }

    /**
     * Arrival of the request whose handler this thread calls now for the first time; null if it calls none of
     * Triple's. Calls that the handler makes within this process have none.
     *
     * @throws RpcException if the request was shed
     */
    static Gate.Arrival begin() {
        TripleRequest request = CURRENT.get();
        if (request == null || request.begun) {
            return null;
        }
        request.begun = true;
        if (request.refusal != null) {
            throw request.refusal;
        }
        return request.arrival;
    }

    @Override
    public void execute(Runnable events) {
        if (refusal != null) {
            run(events);
        } else if (begun) {
            pool.execute(() -> run(events));
        } else {
            pool.execute(new Turn(events));
        }
    }

    private void run(Runnable events) {
        TripleRequest before = CURRENT.get();
        CURRENT.set(this);
        try {
            events.run();
        } finally {
            if (before == null) {
                CURRENT.remove();
            } else {
                CURRENT.set(before);
            }
        }
    }

    private final class Turn extends Call {
        private final Runnable events;

        Turn(Runnable events) {
            super(Deadlines.now(), pool.gate(), arrival);
            this.events = events;
        }

        @Override
        public void run() {
            TripleRequest.this.run(events);
        }

        /** With the codes that Dubbo answers with itself: a timeout, or, when too many wait, a limit. */
        @Override
        protected void answer(Shedding.Reason reason) {
            boolean full = reason == Shedding.Reason.FULL;
            int code = full ? RpcException.LIMIT_EXCEEDED_EXCEPTION : RpcException.TIMEOUT_EXCEPTION;
            refusal = new RpcException(code, arrival.method() + " was not served: " + reason);
            TripleRequest.this.run(events);
        }
    }
}
