//! Open files, by file ID.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, StatxFlags, statx};
use storage::{FileId, FileOptions, OpenedFile};

use super::PAGE;

/// Open files. A pending request holds its file: a closed descriptor number may be reused at once.
#[derive(Default)]
pub(super) struct Files(Vec<Option<Arc<File>>>);

impl Files {
    pub fn open(&mut self, path: &Path, options: &FileOptions) -> io::Result<OpenedFile> {
        let flags = if options.direct { libc::O_DIRECT } else { 0 };
        let write = options.write || options.create;
        let opened = OpenOptions::new()
            .read(true)
            .write(write)
            .create(options.create)
            .custom_flags(flags)
            .open(path)
            .map_err(|e| match e.raw_os_error() {
                Some(libc::EINVAL) if options.direct => refuses(path),
                _ => io::Error::new(e.kind(), format!("{}: {e}", path.display())),
            })?;
        let align = if options.direct { align(&opened)?.ok_or_else(|| refuses(path))? } else { 1 };
        let index = self.0.iter().position(Option::is_none).unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[index] = Some(Arc::new(opened));
        Ok(OpenedFile { file: FileId(index as u32), align })
    }

    pub fn close(&mut self, FileId(index): FileId) {
        self.0[index as usize] = None;
    }

    pub fn get(&self, FileId(index): FileId) -> Arc<File> {
        self.0[index as usize].clone().expect("requests are of open files")
    }
}

/// Alignment of offsets and lengths for direct I/O; `None` if the file must be cached.
fn align(file: &File) -> io::Result<Option<u32>> {
    let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        // Linux before 6.1, or a file system that does not report it: a page always works.
        return Ok(Some(PAGE as u32));
    }
    let (memory, offset) = (stat.stx_dio_mem_align, stat.stx_dio_offset_align);
    Ok((offset > 0 && memory as usize <= PAGE).then_some(offset))
}

fn refuses(path: &Path) -> io::Error {
    let why = format!(
        "{}: its file system does not support direct I/O (O_DIRECT); \
         open it through the cache, or put it on another one",
        path.display()
    );
    io::Error::new(io::ErrorKind::Unsupported, why)
}
