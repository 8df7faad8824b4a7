package greenwave.deadline.codec;

import greenwave.deadline.InvalidBudget;

/**
 * Parse error of a budget: {@link InvalidBudget#GARBLED} or {@link InvalidBudget#NEGATIVE}. It has no stack
 * trace, so that throwing it is cheap.
 */
public final class BadBudget extends Exception {
    private static final long serialVersionUID = 1;
    static final BadBudget GARBLED = new BadBudget(InvalidBudget.GARBLED);
    static final BadBudget NEGATIVE = new BadBudget(InvalidBudget.NEGATIVE);

    private final InvalidBudget fault;

    private BadBudget(InvalidBudget fault) {
        super(
                fault == InvalidBudget.GARBLED ? "it does not follow the format" : "a span below zero",
                null,
                false,
                false);
        this.fault = fault;
    }

    /** Kind of the error. */
    public InvalidBudget fault() {
        return fault;
    }
}
