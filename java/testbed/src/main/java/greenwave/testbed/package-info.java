/**
 * Runners: real services on loopback, told on stdin what to do, heard on stdout.
 *
 * <p>{@link greenwave.testbed.Plan} is what a runner is told and {@link greenwave.testbed.Run} what it says;
 * {@link greenwave.testbed.Dubbo} is the runner of services in series on Dubbo. Source: spec/testbed.md.
 */
package greenwave.testbed;
