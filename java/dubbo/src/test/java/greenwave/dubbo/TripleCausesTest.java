package greenwave.dubbo;

/** The same over the protocol {@code tri}. */
class TripleCausesTest extends CausesTest {
    @Override
    String protocol() {
        return "tri";
    }

    @Override
    String method() {
        return "/" + Step.class.getName() + "/goAsync";
    }
}
