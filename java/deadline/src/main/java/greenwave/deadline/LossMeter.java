package greenwave.deadline;

import java.util.HashMap;
import java.util.Map;

/**
 * Overload measured by the queue itself: the share of requests that were lost recently.
 *
 * <p>A request that expires is lost; one that is served is lost by the probability that it will be late.
 * Shares are over the last one to two seconds. Without losses the floor is zero, and the queue drops what has
 * expired and nothing else. Losses are also counted by {@link BudgetClass}. A sender chooses its budget, and a
 * shorter one is served earlier: a class that loses less than others of its size is <em>favoured</em>, and
 * waits for them. One thread at a time.
 */
final class LossMeter {
    private long openedNanos;
    private Window previous = new Window();
    private Window current = new Window();

    /**
     * Requests whose expected service times are in one octave, and whose budgets are.
     *
     * @param size octave of the expected service time
     * @param budget octave of the time left at the offer; {@link #ALL} for all of the size
     */
    record BudgetClass(int size, int budget) {
        /** In place of an octave, which is at least 1 for requests with time left. */
        private static final int ALL = 0;

        /** Class of a request that is expected to take {@code meanNanos} and has {@code leftNanos}. */
        static BudgetClass of(long meanNanos, long leftNanos) {
            return new BudgetClass(octave(meanNanos), octave(leftNanos));
        }

        /** True if requests of this class have a longer budget than those of {@code other}, for the same size. */
        boolean isLongerThan(BudgetClass other) {
            return size == other.size && budget > other.budget;
        }

        private BudgetClass allOfItsSize() {
            return new BudgetClass(size, ALL);
        }

        /** Number of binary digits. */
        private static int octave(long nanos) {
            return Long.SIZE - Long.numberOfLeadingZeros(nanos);
        }
    }

    /** Sums of probabilities, in units of 2⁻¹⁶. */
    private static final class Losses {
        long lost;
        long of;

        void record(long more, long moreOf) {
            lost += more;
            of += moreOf;
        }
    }

    private static final class Window {
        final Losses all = new Losses();
        final Map<BudgetClass, Losses> classes = new HashMap<>();
    }

    /** Records a request that leaves at {@code nowNanos}, in time with {@code probability}. */
    void record(long nowNanos, long probability) {
        long age = nowNanos - openedNanos;
        if (age >= WINDOW_NANOS) {
            previous = age < WINDOW_NANOS * 2 ? current : new Window();
            current = new Window();
            openedNanos = nowNanos;
        }
        current.all.record(Forecast.ONE - probability, Forecast.ONE);
    }

    /**
     * Records the class of a request that leaves, in time with {@code probability}; at the offer it would have been
     * with {@code atOffer}.
     */
    void recordClass(BudgetClass known, long atOffer, long probability) {
        long lost = Math.max(0, atOffer - probability);
        current.classes.computeIfAbsent(known, unknown -> new Losses()).record(lost, atOffer);
        current.classes.computeIfAbsent(known.allOfItsSize(), unknown -> new Losses()).record(lost, atOffer);
    }

    /** Least probability with which a request is served before others. */
    long floor() {
        long requests = (previous.all.of + current.all.of) / Forecast.ONE;
        long scaled = (previous.all.lost + current.all.lost) * LOSS_FACTOR / (requests + SAMPLES_PRIOR);
        return Math.min(Forecast.ONE, scaled) * FLOOR_MAX / Forecast.ONE;
    }

    /**
     * True if requests of {@code known}, one more of which is served now that would have been in time with
     * {@code atOffer}, lose less than all of their size, which lose more than one in fifty.
     */
    boolean isFavoured(BudgetClass known, long atOffer) {
        long all = share(known.allOfItsSize(), 0);
        return all > Forecast.ONE / LOSS_IGNORED && share(known, atOffer) < all;
    }

    /** Share lost of {@code known}, with {@code more} that is not lost, in units of 2⁻¹⁶. */
    private long share(BudgetClass known, long more) {
        Losses sum = new Losses();
        sum.record(0, more);
        for (Window window : new Window[] {previous, current}) {
            Losses losses = window.classes.get(known);
            if (losses != null) {
                sum.record(losses.lost, losses.of);
            }
        }
        return sum.of == 0 ? 0 : sum.lost * Forecast.ONE / sum.of;
    }

    private static final long WINDOW_NANOS = 1_000_000_000L;
    /** Inverse of the share of losses at which the floor is highest. */
    private static final long LOSS_FACTOR = 10;
    /** Inverse of the share of losses up to which no class is favoured. */
    private static final long LOSS_IGNORED = 50;
    /** Highest floor: 0.8. */
    private static final long FLOOR_MAX = Forecast.ONE * 4 / 5;
    /** Requests without loss that are imagined before the first. */
    private static final long SAMPLES_PRIOR = 8;
}
