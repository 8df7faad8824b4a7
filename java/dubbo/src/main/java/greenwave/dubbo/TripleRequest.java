package greenwave.dubbo;

import greenwave.deadline.BudgetValidator;
import greenwave.deadline.Gate;
import greenwave.deadline.Shedding;
import greenwave.deadline.codec.BudgetField;
import greenwave.deadline.codec.EnvoyTimeout;
import greenwave.deadline.codec.GrpcTimeout;
import greenwave.deadline.thread.CallEvents;
import greenwave.deadline.thread.Deadlines;
import java.util.List;
import org.apache.dubbo.remoting.http12.HttpHeaders;
import org.apache.dubbo.remoting.http12.RequestMetadata;
import org.apache.dubbo.rpc.RpcException;

/** The events of one request of the Triple protocol; {@link ProviderFilter} keeps a shed one from its handler. */
final class TripleRequest extends CallEvents<RpcException> {
    private TripleRequest(DeadlineThreadPool.Pool pool, Gate.Arrival arrival) {
        super(pool, pool.gate(), arrival);
    }

    /** The request with the headers {@code metadata}, which arrives at {@code pool} now. */
    static TripleRequest arrive(DeadlineThreadPool.Pool pool, RequestMetadata metadata) {
        HttpHeaders headers = metadata.headers();
        BudgetValidator.Received received = new BudgetValidator.Received(
                lines(headers, BudgetField.HEADER),
                lines(headers, GrpcTimeout.HEADER),
                lines(headers, EnvoyTimeout.HEADER));
        return new TripleRequest(pool, pool.gate().arrive(Deadlines.now(), received, metadata.path()));
    }

    private static List<String> lines(HttpHeaders headers, String name) {
        List<String> lines = headers.get(name);
        return lines == null ? List.of() : lines;
    }

    /**
     * Arrival of the request whose handler this thread calls now for the first time; null if it calls none of
     * Triple's. Calls that the handler makes within this process have none.
     *
     * @throws RpcException if the request was shed
     */
    static Gate.Arrival beginCurrent() {
        if (!(current() instanceof TripleRequest request) || request.hasBegun()) {
            return null;
        }
        request.begin();
        if (request.refusal() != null) {
            throw request.refusal();
        }
        return request.arrival();
    }

    /** With the codes that Dubbo answers with itself: a timeout, or, when too many wait, a limit. */
    @Override
    protected RpcException refuse(Shedding.Reason reason, String text) {
        return Causes.exception(reason.cause(), text);
    }
}
