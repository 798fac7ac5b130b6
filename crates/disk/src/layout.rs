//! Sizes of the file and of its segments, and the block at its beginning that states them.

use evenkeel_cache::record::FRAME;
use std::path::PathBuf;

/// Settings of the tier. Path and size come from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Folder of the file. Created if its parent exists.
    pub path: PathBuf,
    /// Bytes of the file. Values below 1 MiB count as 1 MiB.
    pub size: u64,
    /// Largest body that is stored: a segment has room for it.
    pub object_max: u64,
    /// Most bytes of responses that wait to be written.
    pub queue_max: u64,
    /// Responses that are written when the memory drops them.
    pub admit: Admit,
}

/// Responses that are written when the memory drops them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admit {
    /// All, as long as the disk has room; then those that were requested at least twice.
    #[default]
    Reused,
    All,
}

/// Bytes before the first segment.
pub const START: u64 = 4096;

/// Bytes of a head that is not unusually long.
const HEAD: u64 = 64 << 10;

/// Bytes of a file for each response that the index may have. If responses are smaller on average, the index is full
/// first.
const PER_ENTRY: u64 = 1024;

/// Fewest segments: with a quarter of the file each, reclaiming one drops a quarter.
const SEGMENTS_MIN: u64 = 8;

/// Segments if they can be small.
const SEGMENTS: u64 = 128;

const MAGIC: &[u8; 8] = b"ekdisk\x02\n";

/// Bytes at the beginning that state the layout.
pub const BLOCK: usize = 512;

/// Offset of the anchor of the clock.
pub const ANCHOR_AT: u64 = BLOCK as u64;

/// Number and places of the segments of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of a segment in bytes.
    pub segment: u64,
    pub count: u16,
}

impl Layout {
    pub fn of(options: &Options) -> Layout {
        let room = options.size.max(1 << 20) - START;
        let segment = (room / SEGMENTS).max(options.object_max.saturating_add(HEAD)).max(64 << 10);
        // Offsets in a segment have 32 bits, numbers of segments 15.
        let segment = segment.min(room / SEGMENTS_MIN).max(room / 32_000).min(u32::MAX.into());
        Layout { segment, count: (room / segment).min(32_000) as u16 }
    }

    /// Length of the file in bytes.
    pub fn file_len(&self) -> u64 {
        START + self.segment * u64::from(self.count)
    }

    /// Place of a segment in the file.
    pub fn at(&self, slot: u16) -> u64 {
        START + self.segment * u64::from(slot)
    }

    /// Slot of a segment by its number.
    pub fn slot(&self, epoch: u32) -> u16 {
        (epoch % u32::from(self.count)) as u16
    }

    /// Largest record. A segment has a frame at either end.
    pub fn record_max(&self) -> u64 {
        self.segment - 2 * FRAME as u64
    }

    /// Most responses in the index.
    pub fn entries_max(&self) -> usize {
        (self.file_len() / PER_ENTRY) as usize
    }

    /// Bytes at the beginning of the file.
    pub fn block(&self) -> Vec<u8> {
        let mut block = MAGIC.to_vec();
        block.extend_from_slice(&self.segment.to_le_bytes());
        block.extend_from_slice(&u64::from(self.count).to_le_bytes());
        block.resize(BLOCK, 0);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_the_largest_object_where_that_leaves_enough_of_them() {
        let of = |size: u64, object_max: u64| {
            let options = Options { path: PathBuf::new(), size, object_max, queue_max: 0, admit: Admit::All };
            let layout = Layout::of(&options);
            assert!(layout.file_len() <= size.max(1 << 20) && layout.segment <= u32::MAX.into(), "{layout:?}");
            assert!(layout.count >= 8 && u64::from(layout.count) <= 32_000, "{layout:?}");
            layout
        };
        assert_eq!(of(10 << 30, 8 << 20).count, 128);
        assert!(of(1 << 30, 8 << 20).record_max() > 8 << 20);
        assert_eq!(of(16 << 20, 8 << 20).count, 8);
        assert_eq!(of(0, 1 << 10).count, 15);
        of(1 << 44, 1 << 36);
    }
}
