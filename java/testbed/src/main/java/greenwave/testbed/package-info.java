/**
 * Runners: real services on loopback that read a plan from stdin and report on stdout.
 *
 * <p>{@link greenwave.testbed.Plan} is a runner's input and {@link greenwave.testbed.Run} writes its output;
 * {@link greenwave.testbed.Dubbo} is the runner of services in series on Dubbo. Source: spec/testbed.md.
 */
package greenwave.testbed;
