//! Bytes of a file, decompressed by its first bytes, with the count of bytes read.

use flate2::bufread::MultiGzDecoder;
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Bytes of a read from the file.
const READ: usize = 64 << 10;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Counts bytes read, before they are decompressed.
struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(to)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

/// Reader of the text, whatever the compression. `count` grows with the bytes of the file.
///
/// # Errors
/// If the first bytes cannot be read.
pub fn decoded<R: Read + 'static>(inner: R, count: Rc<Cell<u64>>) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::with_capacity(READ, Counted { inner, count });
    let mut front = Vec::new();
    // A pipe may return single bytes.
    while front.len() < ZSTD.len() {
        let mut byte = [0];
        match file.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => front.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (is_gzip, is_zstd) = (front.starts_with(GZIP), front.starts_with(ZSTD));
    let whole = io::Cursor::new(front).chain(file);
    Ok(match (is_gzip, is_zstd) {
        (true, _) => Box::new(MultiGzDecoder::new(whole)),
        (_, true) => Box::new(Zstd::new(whole)?),
        _ => Box::new(whole),
    })
}

/// Decompression of Zstandard. A frame asks for at most 128 MiB, the default of the library.
struct Zstd<R> {
    file: R,
    context: DCtx<'static>,
    /// True between two frames, where a file may end.
    is_between: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(file: R) -> io::Result<Zstd<R>> {
        let context = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Zstd { file, context, is_between: true })
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let from = self.file.fill_buf()?;
            let is_end = from.is_empty();
            let mut input = InBuffer::around(from);
            let mut output = OutBuffer::around(&mut *to);
            let hint = if is_end && self.is_between {
                0
            } else {
                self.context
                    .decompress_stream(&mut output, &mut input)
                    .map_err(|code| io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code)))?
            };
            let (read, written) = (input.pos(), output.pos());
            self.file.consume(read);
            // At the end of a frame the context expects the next.
            self.is_between = hint == 0;
            match (written, is_end) {
                (1.., _) => return Ok(written),
                (0, true) if self.is_between => return Ok(0),
                (0, true) => return Err(io::ErrorKind::UnexpectedEof.into()),
                (0, false) if to.is_empty() => return Ok(0),
                (0, false) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        let mut out = vec![0; zstd_safe::compress_bound(text.len())];
        let length = zstd_safe::compress(&mut out[..], text, 1).unwrap();
        out.truncate(length);
        out
    }

    fn read(bytes: Vec<u8>) -> (io::Result<Vec<u8>>, u64) {
        let count = Rc::new(Cell::new(0));
        let mut out = Vec::new();
        let mut reader = decoded(io::Cursor::new(bytes), Rc::clone(&count)).unwrap();
        (reader.read_to_end(&mut out).map(|_| out), count.get())
    }

    #[test]
    fn compression_is_found_by_the_first_bytes() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for bytes in [text.clone(), gzip(&text), zstd(&text)] {
            let length = bytes.len() as u64;
            let (out, count) = read(bytes);
            assert!(out.unwrap() == text && count == length);
        }
        for short in [&b""[..], b"a", b"\x1f", b"\x28\xb5\x2f"] {
            assert_eq!(read(short.to_vec()).0.unwrap(), short);
        }
    }

    #[test]
    fn several_members_are_one_text() {
        assert_eq!(read([gzip(b"one\n"), gzip(b"two\n")].concat()).0.unwrap(), b"one\ntwo\n");
        assert_eq!(read([zstd(b"one\n"), zstd(b"two\n")].concat()).0.unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn a_file_that_was_cut_is_an_error() {
        let text = [b'x'; 5000];
        for bytes in [gzip(&text), zstd(&text)] {
            for length in 5..bytes.len() {
                assert!(read(bytes[..length].to_vec()).0.is_err(), "{length} of {}", bytes.len());
            }
        }
    }
}
