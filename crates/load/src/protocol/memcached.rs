//! memcached's text protocol for load generation, with the mix of Facebook's USR pool.
//!
//! Keys of 16 and 21 bytes, values of 2, almost only gets. A request's key is a hash of its id, so
//! the client is stateless; all keys are equally likely. A miss is a response too.
//! Source: memcached, doc/protocol.txt; Atikoglu et al., *Workload analysis of
//! a large-scale key-value store* (SIGMETRICS '12), USR.

/// Kind of a get.
pub const GET: u8 = 0;
/// Kind of a set.
pub const SET: u8 = 1;
/// Share of sets in the mix.
pub const SET_SHARE: f64 = 0.002;

/// Value of every key.
const VALUE: &[u8] = b"ab";
/// Maximum length of a line; longer ones, and longer values, are errors.
const LINE_MAX: usize = 512;
const VALUE_MAX: usize = 1 << 20;

/// Appends request `id` of `kind`, with one of `keys` keys.
pub fn write(kind: u8, id: u64, keys: u32, into: &mut Vec<u8>) {
    // Fibonacci hashing: the upper half of the product.
    let spread = id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    write_for((spread * u64::from(keys)) >> 32, kind, into);
}

/// Appends a set of key number `key`, to fill the store before a run.
pub fn write_set(key: u32, into: &mut Vec<u8>) {
    write_for(key.into(), SET, into);
}

fn write_for(key: u64, kind: u8, into: &mut Vec<u8>) {
    into.extend_from_slice(if kind == SET { b"set " } else { b"get " });
    let digits = if key.is_multiple_of(2) { 15 } else { 20 };
    into.push(b'k');
    let mut rest = key;
    let start = into.len();
    for _ in 0..digits {
        into.push(b'0' + (rest % 10) as u8);
        rest /= 10;
    }
    into[start..].reverse();
    if kind == SET {
        into.extend_from_slice(b" 0 0 2\r\n");
        into.extend_from_slice(VALUE);
    }
    into.extend_from_slice(b"\r\n");
}

/// Error: the bytes are not a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseError;

/// Framer of a stream of responses, however it is segmented.
#[derive(Debug, Default)]
pub struct Framer {
    line: Vec<u8>,
    /// Remaining bytes of a value, its line end included.
    value: usize,
}

impl Framer {
    /// Parses `bytes`; calls `done` for each response that ends in them.
    ///
    /// # Errors
    /// [`ResponseError`] for error responses and malformed bytes.
    pub fn push(&mut self, mut bytes: &[u8], mut done: impl FnMut()) -> Result<(), ResponseError> {
        while !bytes.is_empty() {
            if self.value > 0 {
                let n = self.value.min(bytes.len());
                self.value -= n;
                bytes = &bytes[n..];
                continue;
            }
            let end = bytes.iter().position(|&b| b == b'\n');
            let n = end.map_or(bytes.len(), |at| at + 1);
            self.line.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.line.len() > LINE_MAX {
                return Err(ResponseError);
            }
            if end.is_some() {
                match value_len(self.line.trim_ascii_end())? {
                    Some(len) => self.value = len + 2,
                    None => done(),
                }
                self.line.clear();
            }
        }
        Ok(())
    }
}

/// Length of the value that follows a line; `None` if the line ends a response.
fn value_len(line: &[u8]) -> Result<Option<usize>, ResponseError> {
    if matches!(line, b"END" | b"STORED") {
        return Ok(None);
    }
    let text = std::str::from_utf8(line).map_err(|_| ResponseError)?;
    let mut words = text.split(' ');
    let length = (words.next() == Some("VALUE")).then(|| words.nth(2)?.parse().ok()).flatten();
    length.filter(|&length| length <= VALUE_MAX).map(Some).ok_or(ResponseError)
}

//~ load: memcached requests follow the USR mix and are matched in order
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(kind: u8, key: u64) -> String {
        let mut bytes = Vec::new();
        write_for(key, kind, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn requests_are_those_of_the_usr_pool() {
        assert_eq!(written(GET, 1234), "get k000000000001234\r\n");
        assert_eq!(written(SET, 1235), "set k00000000000000001235 0 0 2\r\nab\r\n");
    }

    #[test]
    fn ids_reach_all_keys() {
        let key = |id| {
            let mut bytes = Vec::new();
            write(GET, id, 10, &mut bytes);
            bytes[bytes.len() - 3] - b'0'
        };
        let mut seen = [0; 10];
        (0..1000).for_each(|id| seen[usize::from(key(id))] += 1);
        assert!(seen.iter().all(|count| (80..120).contains(count)), "{seen:?}");
    }

    #[test]
    fn response_boundaries_do_not_depend_on_segmentation() {
        let text = b"STORED\r\nVALUE k1 0 2\r\nab\r\nEND\r\nEND\r\nVALUE k 0 5\r\nEND\r\n\r\nEND\r\n";
        for cut in 0..text.len() {
            let (mut framer, mut ends) = (Framer::default(), 0);
            for piece in [&text[..cut], &text[cut..]] {
                framer.push(piece, || ends += 1).unwrap();
            }
            assert_eq!(ends, 4, "cut at {cut}");
        }
    }

    #[test]
    fn other_texts_are_errors() {
        for text in
            ["ERROR\r\n", "SERVER_ERROR out of memory\r\n", "VALUE k 0\r\n", "VALUE k 0 2000000\r\n", "\r\n"]
        {
            assert_eq!(Framer::default().push(text.as_bytes(), || ()), Err(ResponseError), "{text:?}");
        }
        assert_eq!(Framer::default().push(&[b'x'; 600], || ()), Err(ResponseError), "a line without an end");
    }

    proptest! {
        #[test]
        fn the_framer_never_panics(bytes: Vec<u8>, value: bool) {
            let mut framer = Framer::default();
            if value {
                framer.push(b"VALUE k 0 9\r\n", || ()).unwrap();
            }
            let _ = framer.push(&bytes, || ());
        }
    }
}
