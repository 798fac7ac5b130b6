//! Interfaces of this machine.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::ptr;

/// Hardware type of Ethernet, `ARPHRD_ETHER`. Programs find the header of IP behind the header of Ethernet.
const ETHERNET: u16 = 1;

/// Returns number, name, and `true` if it is up, of each interface of Ethernet. Loopback is none.
pub(super) fn ethernets() -> io::Result<Vec<(u32, String, bool)>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `first` is written; the list is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = BTreeMap::new();
    let mut at = first;
    // SAFETY: `at` is null or an element of the list, which is not freed yet.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: an address is null, or at least as large as its family says.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|addr| i32::from(addr.sa_family));
        if family != Some(libc::AF_PACKET) {
            continue;
        }
        // SAFETY: an address of this family is a `sockaddr_ll`; the library aligns it.
        let link = unsafe { entry.ifa_addr.cast::<libc::sockaddr_ll>().read_unaligned() };
        if link.sll_hatype != ETHERNET {
            continue;
        }
        // SAFETY: names are not null, and end with 0.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        if let Ok(index) = u32::try_from(link.sll_ifindex) {
            found.insert(index, (name, up));
        }
    }
    // SAFETY: the list is from `getifaddrs`, and not used after this.
    unsafe { libc::freeifaddrs(first) };
    Ok(found.into_iter().map(|(index, (name, up))| (index, name, up)).collect())
}
