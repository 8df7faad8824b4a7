"""What the programs of these tests all want to say of a socket."""


def refuses(call, *codes):
    """That `call` fails, with one of these errors."""
    try:
        call()
    except OSError as e:
        assert e.errno in codes, e
    else:
        raise AssertionError("no error")
