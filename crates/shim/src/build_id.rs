//! Build identifier of the shim's protocol.
//!
//! One build makes the library and `greenwave run`, so the protocol between them has no version and
//! may change with any build. Its identifier is a hash of the sources that define it. A library
//! with another identifier ends its program ([`OTHER_BUILD`]), which would otherwise silently run
//! on the kernel's TCP. The identifier is also in an ELF note of the library (elf(5)); a file
//! without it is another library.

/// The identifier, in hexadecimal: the last part of [`VARIABLE`](super::VARIABLE).
pub const BUILD: &str = match std::str::from_utf8(&DIGITS) {
    Ok(digits) => digits,
    Err(_) => panic!("digits are ASCII"),
};

/// Error message of a library of another build.
pub const OTHER_BUILD: &str = "libgreenwave.so and greenwave are from different builds";

/// Owner and type of the note that holds [`BUILD`].
pub(super) const NOTE_OWNER: &[u8] = b"greenwave";
pub(super) const NOTE_KIND: u32 = 1;

/// `struct Elf64_Nhdr`, the owner with NULs up to a multiple of 4, the content.
#[repr(C, align(4))]
struct Note {
    owner_len: u32,
    content_len: u32,
    kind: u32,
    owner: [u8; 12],
    content: [u8; 16],
}

// Linkers keep sections of this name.
#[used]
#[unsafe(link_section = ".note.greenwave")]
static NOTE: Note = Note {
    owner_len: NOTE_OWNER.len() as u32 + 1,
    content_len: DIGITS.len() as u32,
    kind: NOTE_KIND,
    owner: *b"greenwave\0\0\0",
    content: DIGITS,
};

const DIGITS: [u8; 16] = {
    let mut digits = [0; 16];
    let mut at = 0;
    while at < digits.len() {
        digits[at] = b"0123456789abcdef"[(SUM >> (60 - 4 * at) & 0xf) as usize];
        at += 1;
    }
    digits
};

/// Hash of all sources that define the protocol.
const SUM: u64 = sum(&[
    include_str!("client.rs"),
    include_str!("bind_addr.rs"),
    include_str!("server.rs"),
    include_str!("datagram_header.rs"),
    include_str!("label_table.rs"),
    include_str!("listener_table.rs"),
    include_str!("udp_table.rs"),
    include_str!("socket_name.rs"),
    include_str!("tcp_sockopt.rs"),
    include_str!("shm_send.rs"),
    include_str!("shm_send/buffer.rs"),
    include_str!("scm_rights.rs"),
    include_str!("conn_pair.rs"),
    include_str!("routes.rs"),
    include_str!("protocol.rs"),
]);

/// FNV-1a.
const fn sum(texts: &[&str]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut text = 0;
    while text < texts.len() {
        let bytes = texts[text].as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            sum = (sum ^ bytes[at] as u64).wrapping_mul(0x100_0000_01b3);
            at += 1;
        }
        text += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_more_is_another_build() {
        assert_eq!(sum(&["a", "b"]), sum(&["ab"]));
        assert_ne!(sum(&["ab"]), sum(&["ab "]));
        assert_eq!(BUILD, format!("{SUM:016x}"));
    }
}
