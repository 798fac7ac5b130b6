//! File that says which services of IPVS are evenkeel's: the kernel keeps no names.
//!
//! The file is written before the kernel is changed, so that a crash in between leaves no service without an owner. It
//! counts only in the boot and in the network namespace that wrote it. A service of another program is taken for
//! evenkeel's only if it is made at an address of the file after a crash that removed evenkeel's there.

use super::entry::Key;
use super::steps::Entries;
use crate::service::Transport;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// First line, with the version of the format.
const TITLE: &str = "evenkeel-ipvs 1";
/// Words of a service's line for the source address that endpoints see.
const OWN: &str = "own";
const CLIENT: &str = "client";

/// Service that is evenkeel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub name: Arc<str>,
    /// True if endpoints see an address of this machine.
    pub masqueraded: bool,
    /// Numbers of endpoints by their address.
    pub ids: BTreeMap<SocketAddr, u32>,
}

/// File of owned services, and its place.
#[derive(Debug)]
pub(super) struct State {
    folder: PathBuf,
    name: String,
    /// Latest content; empty if unknown.
    written: String,
}

impl State {
    pub(super) fn new(folder: &Path, name: &str) -> State {
        State { folder: folder.to_owned(), name: name.to_owned(), written: String::new() }
    }

    /// Path of the file: processes in several network namespaces may share a folder.
    fn path(&self, place: &Place) -> PathBuf {
        self.folder.join(format!("{}-ipvs-{}", self.name, place.inode))
    }

    /// Returns the services that the file names; none if it is of another boot or network namespace.
    pub(super) fn read(&self) -> io::Result<BTreeMap<Key, Owned>> {
        let here = Place::here()?;
        match fs::read_to_string(self.path(&here)) {
            Ok(text) => Ok(parse(&text, &here)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the file, if it would differ.
    pub(super) fn write<'e>(&mut self, entries: impl Iterator<Item = &'e Entries>) -> io::Result<()> {
        let here = Place::here()?;
        let text = render(entries, &here);
        if text == self.written {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        let path = self.path(&here);
        let next = path.with_extension("next");
        fs::write(&next, &text)?;
        fs::rename(&next, path)?;
        self.written = text;
        Ok(())
    }

    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.written.clear();
        match fs::remove_file(self.path(&Place::here()?)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Boot and network namespace. Numbers of namespaces are used again after a boot, but hardly before.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    boot: String,
    device: u64,
    inode: u64,
}

impl Place {
    fn here() -> io::Result<Place> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let namespace = fs::metadata("/proc/thread-self/ns/net")?;
        Ok(Place { boot, device: namespace.dev(), inode: namespace.ino() })
    }
}

fn render<'e>(entries: impl Iterator<Item = &'e Entries>, place: &Place) -> String {
    let mut text = head(place).map(|line| line + "\n").concat();
    for (key, entry) in entries.flatten() {
        // A `String` takes all that is written.
        let _ = writeln!(text, "service {key} {} {}", if entry.masqueraded { OWN } else { CLIENT }, entry.name);
        for (addr, dest) in &entry.dests {
            let _ = writeln!(text, "dest {addr} {}", dest.id);
        }
    }
    text
}

fn head(place: &Place) -> [String; 3] {
    [TITLE.to_owned(), format!("boot {}", place.boot), format!("namespace {}:{}", place.device, place.inode)]
}

fn parse(text: &str, place: &Place) -> BTreeMap<Key, Owned> {
    let mut lines = text.lines();
    let mut owned: BTreeMap<Key, Owned> = BTreeMap::new();
    if !head(place).iter().all(|line| lines.next() == Some(line)) {
        return owned;
    }
    let mut latest = None;
    for line in lines {
        if let Some((key, masqueraded, name)) = line.strip_prefix("service ").and_then(parse_service) {
            let name = Arc::from(name);
            // A change that was not finished may name a service twice.
            owned.entry(key).or_insert_with(|| Owned { name, masqueraded, ids: BTreeMap::new() });
            latest = Some(key);
        } else if let Some((addr, id)) = line.strip_prefix("dest ").and_then(parse_dest)
            && let Some(service) = latest.and_then(|key| owned.get_mut(&key))
        {
            service.ids.insert(addr, id);
        }
    }
    owned
}

fn parse_service(line: &str) -> Option<(Key, bool, &str)> {
    let mut words = line.splitn(4, ' ');
    let transport = match words.next()? {
        "tcp" => Transport::Tcp,
        "udp" => Transport::Udp,
        _ => return None,
    };
    let addr = words.next()?.parse().ok()?;
    let masqueraded = match words.next()? {
        OWN => true,
        CLIENT => false,
        _ => return None,
    };
    Some((Key { transport, addr }, masqueraded, words.next()?))
}

fn parse_dest(line: &str) -> Option<(SocketAddr, u32)> {
    let (addr, id) = line.split_once(' ')?;
    Some((addr.parse().ok()?, id.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::entry::{Dest, Entry, Options};
    use super::*;
    use proptest::prelude::*;

    fn place(boot: &str, device: u64, inode: u64) -> Place {
        Place { boot: boot.to_owned(), device, inode }
    }

    fn entries() -> Entries {
        let options = Options { scheduler: "wlc".to_owned(), scheduler_flags: 0, persistent_s: None };
        let dest = |id| Dest { id, weight: 1, left: false };
        let dests = [("10.0.0.1:80".parse().unwrap(), dest(1)), ("[2001:db8::1]:80".parse().unwrap(), dest(7))].into();
        let key = Key { transport: Transport::Udp, addr: "192.0.2.1:53".parse().unwrap() };
        [(key, Entry { name: "name server".into(), options, masqueraded: true, dests })].into()
    }

    #[test]
    fn owned_services_survive() {
        let here = place("b", 4, 1);
        let owned = parse(&render([entries()].iter(), &here), &here);
        let (key, entry) = entries().into_iter().next().unwrap();
        assert_eq!(owned[&key].name, entry.name);
        assert!(owned[&key].masqueraded);
        assert_eq!(
            owned[&key].ids,
            [("10.0.0.1:80".parse().unwrap(), 1), ("[2001:db8::1]:80".parse().unwrap(), 7)].into()
        );
    }

    #[test]
    fn another_boot_or_namespace_owns_nothing() {
        let text = render([entries()].iter(), &place("b", 4, 1));
        for other in [place("c", 4, 1), place("b", 4, 2), place("b", 3, 1)] {
            assert_eq!(parse(&text, &other), BTreeMap::new());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(lines in prop::collection::vec("(service |dest |)(tcp |udp |)[0-9.:\\[\\]]{0,12}( own| client|)( .{0,3}| [0-9]{1,12}|)", 0..20)) {
            let here = place("b", 4, 1);
            let text = format!("{TITLE}\nboot b\nnamespace 4:1\n{}", lines.join("\n"));
            let _ = parse(&text, &here);
            let _ = parse(&lines.join("\n"), &here);
        }
    }
}
