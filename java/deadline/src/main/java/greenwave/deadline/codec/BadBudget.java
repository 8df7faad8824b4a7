package greenwave.deadline.codec;

import greenwave.deadline.Fault;

/** Parse error of a budget: {@link Fault#GARBLED} or {@link Fault#NEGATIVE}. Cheap: without a stack trace. */
public final class BadBudget extends Exception {
    private static final long serialVersionUID = 1;
    static final BadBudget GARBLED = new BadBudget(Fault.GARBLED);
    static final BadBudget NEGATIVE = new BadBudget(Fault.NEGATIVE);

    private final Fault fault;

    private BadBudget(Fault fault) {
        super(fault == Fault.GARBLED ? "it does not follow the format" : "a span below zero", null, false, false);
        this.fault = fault;
    }

    /** Kind of the error. */
    public Fault fault() {
        return fault;
    }
}
