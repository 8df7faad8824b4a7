//! One block at rest: compressed, encrypted, in a slot of fixed size, which the
//! store's file may require to be a multiple of its own unit.
//!
//! | bytes | |
//! |---|---|
//! | 0..2 | length of the compressed block, big-endian; 4096: not compressed |
//! | 2..14 | nonce, never used twice with a key |
//! | 14.. | ciphertext and its tag of 16 bytes; zeros to the slot's end |
//!
//! The block's number and the length are authenticated too, so that a block in
//! another's place is detected.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{AeadInOut, KeyInit};

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// Least size of a slot in bytes.
pub(super) const SLOT_MIN: usize = BLOCK + TEXT_AT + TAG;

const NONCE_AT: usize = 2;
const NONCE: usize = 12;
const TEXT_AT: usize = NONCE_AT + NONCE;
const TAG: usize = 16;

/// Error of a slot without the contents sealed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// Seals and opens slots with one key.
pub(super) struct Sealer {
    cipher: Aes256Gcm,
    /// Slots sealed so far: the next nonce.
    sealed: u64,
    buffer: Vec<u8>,
}

impl Sealer {
    /// A sealer with a key that was never used before: nonces count from 0.
    pub fn new(key: [u8; 32]) -> Self {
        Self { cipher: Aes256Gcm::new(&key.into()), sealed: 0, buffer: vec![0; room()] }
    }

    /// Seals `block`, which is block `number`, into `slot`.
    pub fn seal(&mut self, number: u32, block: &[u8; BLOCK], slot: &mut [u8]) {
        let len = match lz4_flex::block::compress_into(block, &mut self.buffer) {
            Ok(len) if len < BLOCK => len,
            _ => {
                self.buffer[..BLOCK].copy_from_slice(block);
                BLOCK
            }
        };
        let mut nonce = [0; NONCE];
        nonce[4..].copy_from_slice(&self.sealed.to_be_bytes());
        self.sealed += 1;
        let about = about(number, len);
        let text = &mut self.buffer[..len];
        let tag = self.cipher.encrypt_inout_detached(&nonce.into(), &about, (&mut *text).into());
        let tag = tag.expect("a block is far below the cipher's limit");
        slot.fill(0);
        slot[..NONCE_AT].copy_from_slice(&(len as u16).to_be_bytes());
        slot[NONCE_AT..TEXT_AT].copy_from_slice(&nonce);
        slot[TEXT_AT..][..len].copy_from_slice(text);
        slot[TEXT_AT + len..][..TAG].copy_from_slice(&tag);
    }

    /// Appends the contents of `slot`, which is block `number`, to `out`.
    pub fn open(&mut self, number: u32, slot: &[u8], out: &mut Vec<u8>) -> Result<(), Damaged> {
        let len = usize::from(u16::from_be_bytes([slot[0], slot[1]]));
        if len > BLOCK {
            return Err(Damaged);
        }
        let text = &mut self.buffer[..len];
        text.copy_from_slice(&slot[TEXT_AT..][..len]);
        let nonce: [u8; NONCE] = slot[NONCE_AT..TEXT_AT].try_into().expect("as many bytes");
        let tag: [u8; TAG] = slot[TEXT_AT + len..][..TAG].try_into().expect("as many bytes");
        let about = about(number, len);
        let opened =
            self.cipher.decrypt_inout_detached(&nonce.into(), &about, (&mut *text).into(), &tag.into());
        opened.map_err(|_| Damaged)?;
        let start = out.len();
        if len == BLOCK {
            out.extend_from_slice(text);
            return Ok(());
        }
        out.resize(start + BLOCK, 0);
        match lz4_flex::block::decompress_into(text, &mut out[start..]) {
            Ok(BLOCK) => Ok(()),
            _ => Err(Damaged),
        }
    }
}

/// Additional authenticated data.
fn about(number: u32, len: usize) -> [u8; 6] {
    let mut about = [0; 6];
    about[..4].copy_from_slice(&number.to_be_bytes());
    about[4..].copy_from_slice(&(len as u16).to_be_bytes());
    about
}

/// Space for the compression of an incompressible block.
fn room() -> usize {
    lz4_flex::block::get_maximum_output_size(BLOCK)
}
