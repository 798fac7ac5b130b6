//! Values of IP networks: [`Networks`] finds the value of the longest prefix that contains an address.
//!
//! Networks nest or are disjoint, so any set of them cuts the addresses into ranges, each with the value of the
//! innermost network around it. The first addresses of these ranges are kept sorted. A trie leads to the few of them
//! that an address may be behind: each node skips the bits that all of its addresses share, and branches by so many of
//! the next bits that a branch has about four addresses (level and path compression: Nilsson and Karlsson, "IP-address
//! lookup using LC-tries", 1999). It adapts to the few prefixes under which real lists of IPv6 networks crowd.
//!
//! N networks make at most 2 N + 1 ranges. A range takes an address and a value, and about 2 bytes of the trie. So a
//! network takes at most some 14 bytes for IPv4 and 38 for IPv6.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{BitXor, Range};

/// Most addresses that are searched without another node.
const BUCKET_MAX: usize = 16;

/// A branch has about four addresses: `1 << SPARSE`.
const SPARSE: u32 = 2;

/// Mark of a branch that leads to a node; the rest is its index.
const NODE: u32 = 1 << 31;

/// Networks that are being collected for a [`Networks`].
#[derive(Clone, Debug)]
pub struct Builder<V> {
    v4: Vec<(u32, u8, V)>,
    v6: Vec<(u128, u8, V)>,
}

impl<V> Default for Builder<V> {
    fn default() -> Builder<V> {
        Builder { v4: Vec::new(), v6: Vec::new() }
    }
}

impl<V: Copy + Ord> Builder<V> {
    /// Adds the network of the first `prefix` bits of `address`. Later bits are ignored, and a prefix longer than the
    /// address means the address alone. Of several values of the same network the greatest counts. At most 2^30
    /// networks of each kind.
    pub fn add(&mut self, address: IpAddr, prefix: u8, value: V) {
        match address {
            IpAddr::V4(ip) => {
                let prefix = prefix.min(<u32 as Bits>::BITS);
                self.v4.push((ip.to_bits() & !u32::behind(prefix), prefix, value));
            }
            IpAddr::V6(ip) => {
                let prefix = prefix.min(<u128 as Bits>::BITS);
                self.v6.push((ip.to_bits() & !u128::behind(prefix), prefix, value));
            }
        }
    }

    /// Builds the table, in the time that sorting the networks takes.
    #[must_use]
    pub fn build(self) -> Networks<V> {
        Networks { v4: Ranges::new(self.v4), v6: Ranges::new(self.v6) }
    }
}

/// Values of IPv4 and IPv6 networks.
#[derive(Clone, Debug)]
pub struct Networks<V> {
    v4: Ranges<u32, V>,
    v6: Ranges<u128, V>,
}

impl<V: Copy> Networks<V> {
    /// Returns the value of the smallest network that contains an address. An IPv4-mapped address is looked up as the
    /// IPv4 address that it stands for.
    #[inline]
    pub fn find(&self, address: IpAddr) -> Option<V> {
        match address.to_canonical() {
            IpAddr::V4(ip) => self.v4.find(ip.to_bits()),
            IpAddr::V6(ip) => self.v6.find(ip.to_bits()),
        }
    }

    /// Memory that the table takes, in bytes.
    pub fn memory(&self) -> usize {
        self.v4.memory() + self.v6.memory()
    }
}

/// An address as a number, of which a prefix is the first bits.
trait Bits: Copy + Ord + BitXor<Output = Self> {
    const BITS: u8;
    const ZERO: Self;

    /// The address whose bits behind a prefix are 1, and all others 0.
    fn behind(prefix: u8) -> Self;

    /// Last address of the network that begins here.
    fn last(self, prefix: u8) -> Self;

    /// Address after this address; `None` after the last.
    fn next(self) -> Option<Self>;

    fn zeros(self) -> u8;

    /// The first bits of the address as a number.
    fn first(self, bits: u8) -> Self;

    /// The last of the bits that are left without the `shift` last bits, selected by a mask.
    fn branch(self, shift: u8, mask: u32) -> usize;
}

/// Implements [`Bits`] for the number behind a kind of addresses.
macro_rules! bits {
    ($($number:ty, $address:ty;)*) => {$(
        impl Bits for $number {
            const BITS: u8 = <$address>::BITS as u8;
            const ZERO: $number = 0;

            #[inline]
            fn behind(prefix: u8) -> $number {
                <$number>::MAX.checked_shr(u32::from(prefix)).unwrap_or(0)
            }

            #[inline]
            fn last(self, prefix: u8) -> $number {
                self | <$number>::behind(prefix)
            }

            #[inline]
            fn next(self) -> Option<$number> {
                self.checked_add(1)
            }

            #[inline]
            fn zeros(self) -> u8 {
                self.leading_zeros() as u8
            }

            #[inline]
            fn first(self, bits: u8) -> $number {
                self.checked_shr(u32::from(<Self as Bits>::BITS - bits)).unwrap_or(0)
            }

            #[inline]
            fn branch(self, shift: u8, mask: u32) -> usize {
                ((self >> shift) as u32 & mask) as usize
            }
        }
    )*};
}

bits! {
    u32, Ipv4Addr;
    u128, Ipv6Addr;
}

/// Ranges of addresses with equal values, from the first address to the last.
#[derive(Clone, Debug)]
struct Ranges<K, V> {
    /// First address of each range; at least the first of all addresses.
    starts: Box<[K]>,
    /// Value of each range; `None` outside of all networks.
    values: Box<[Option<V>]>,
    /// Nodes of the trie, the root first.
    nodes: Box<[Node<K>]>,
    /// Branches of all nodes: the index of the first range of each, or a [`NODE`]. Each node has another branch, with
    /// the end of its ranges.
    branches: Box<[u32]>,
}

/// A node of the trie: some ranges in a row, by the bits in which their first addresses differ.
#[derive(Clone, Debug)]
struct Node<K> {
    /// Bits that all of its addresses have in common.
    prefix: K,
    /// Number of bits of the prefix.
    skip: u8,
    /// Number of bits behind the bits of a branch.
    shift: u8,
    /// Mask of the bits of a branch, once they are shifted to the end.
    mask: u32,
    /// Index of its first branch.
    branches: u32,
    /// Indices of its ranges in [`Ranges::starts`].
    ranges: Range<u32>,
}

impl<K: Bits, V: Copy + Ord> Ranges<K, V> {
    /// Cuts the addresses at the ends of the networks.
    fn new(mut networks: Vec<(K, u8, V)>) -> Ranges<K, V> {
        // A network comes before those within it, and the greater of two values last.
        networks.sort_unstable();
        let mut cuts = Cuts { starts: Vec::new(), values: Vec::new() };
        cuts.push(K::ZERO, None);
        // Networks around the current one, each with its last address, the innermost last.
        let mut around: Vec<(K, V)> = Vec::new();
        for (first, prefix, value) in networks {
            while let Some(&(last, _)) = around.last().filter(|(last, _)| *last < first) {
                around.pop();
                // There is a next address, as `first` is greater.
                cuts.push(last.next().unwrap_or(first), around.last().map(|(_, value)| *value));
            }
            cuts.push(first, Some(value));
            around.push((first.last(prefix), value));
        }
        while let Some((last, _)) = around.pop() {
            let Some(next) = last.next() else { break };
            cuts.push(next, around.last().map(|(_, value)| *value));
        }
        let mut trie = Trie { starts: &cuts.starts, nodes: Vec::new(), branches: Vec::new() };
        trie.add(0..cuts.starts.len());
        let (nodes, branches) = (trie.nodes.into(), trie.branches.into());
        Ranges { starts: cuts.starts.into(), values: cuts.values.into(), nodes, branches }
    }
}

impl<K: Bits, V: Copy> Ranges<K, V> {
    #[inline]
    fn find(&self, address: K) -> Option<V> {
        let mut node = &self.nodes[0];
        loop {
            // The range that began last before an address that is not under the prefix.
            match address.first(node.skip).cmp(&node.prefix) {
                Ordering::Less => return self.values[node.ranges.start as usize - 1],
                Ordering::Greater => return self.values[node.ranges.end as usize - 1],
                Ordering::Equal => {}
            }
            let at = node.branches as usize + address.branch(node.shift, node.mask);
            let first = self.branches[at];
            if first & NODE != 0 {
                node = &self.nodes[(first & !NODE) as usize];
                continue;
            }
            let end = match self.branches[at + 1] {
                next if next & NODE != 0 => self.nodes[(next & !NODE) as usize].ranges.start,
                next => next,
            };
            let begun = self.starts[first as usize..end as usize].partition_point(|start| *start <= address);
            return self.values[first as usize + begun - 1];
        }
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.starts)
            + size_of_val(&*self.values)
            + size_of_val(&*self.nodes)
            + size_of_val(&*self.branches)
    }
}

/// A trie that is being built.
struct Trie<'s, K> {
    starts: &'s [K],
    nodes: Vec<Node<K>>,
    branches: Vec<u32>,
}

impl<K: Bits> Trie<'_, K> {
    /// Adds a node for these ranges, and those below it. Returns its index. Each level distinguishes at least another
    /// bit, which bounds the depth.
    fn add(&mut self, ranges: Range<usize>) -> usize {
        let starts = &self.starts[ranges.clone()];
        let (first, last) = (starts[0], starts[starts.len() - 1]);
        // Of addresses that are all the same, the last bit is the branch.
        let skip = (first ^ last).zeros().min(K::BITS - 1);
        let width = (starts.len().ilog2().saturating_sub(SPARSE) as u8).clamp(1, K::BITS - skip);
        let (shift, mask) = (K::BITS - skip - width, (1 << width) - 1);
        let (node, branches) = (self.nodes.len(), self.branches.len());
        self.nodes.push(Node {
            prefix: first.first(skip),
            skip,
            shift,
            mask,
            branches: branches as u32,
            ranges: ranges.start as u32..ranges.end as u32,
        });
        self.branches.resize(branches + mask as usize + 2, ranges.end as u32);
        let mut at = ranges.start;
        for branch in 0..=mask as usize {
            let rest = &self.starts[at..ranges.end];
            let end = at + rest.iter().take_while(|start| start.branch(shift, mask) == branch).count();
            self.branches[branches + branch] = match end - at > BUCKET_MAX {
                true => self.add(at..end) as u32 | NODE,
                false => at as u32,
            };
            at = end;
        }
        node
    }
}

/// Ranges that were cut so far, in ascending order.
struct Cuts<K, V> {
    starts: Vec<K>,
    values: Vec<Option<V>>,
}

impl<K: Bits, V: Copy + PartialEq> Cuts<K, V> {
    /// Begins a range. A range that began at the same address was empty, and a range with the same value continues.
    fn push(&mut self, start: K, value: Option<V>) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.values.pop();
        }
        if self.values.last() != Some(&value) {
            self.starts.push(start);
            self.values.push(value);
        }
    }
}

#[cfg(test)]
#[path = "networks_tests.rs"]
mod tests;
