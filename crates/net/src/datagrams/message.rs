//! What does the kernel read of a message beside its bytes? The address that it goes to, and control messages: from which
//! address of ours it comes, and where it is to be parted.

use std::net::{IpAddr, SocketAddr};

/// An address of ours and the length of segments, each with its head.
pub const CONTROL: usize = 64;

/// Numbers, as it must be aligned.
pub type Control = [u64; CONTROL / 8];

/// An address as the kernel reads it, in no more room than it takes.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// Of an address.
    #[inline]
    pub fn of(addr: SocketAddr) -> Name {
        match addr {
            SocketAddr::V4(addr) => Name {
                v4: libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: addr.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*addr.ip()).to_be() },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(addr) => Name {
                v6: libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: addr.port().to_be(),
                    sin6_flowinfo: addr.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
                    sin6_scope_id: addr.scope_id(),
                },
            },
        }
    }

    /// How many bytes it takes.
    #[inline]
    pub fn len(addr: SocketAddr) -> libc::socklen_t {
        let len = if addr.is_ipv4() { size_of::<libc::sockaddr_in>() } else { size_of::<libc::sockaddr_in6>() };
        len as libc::socklen_t
    }
}

/// Says from which address, and where to part; the header has a control of [`CONTROL`] bytes, all zero.
pub fn write_control(header: &mut libc::msghdr, ours: Option<(IpAddr, u32)>, segment: Option<u16>) {
    let mut used = 0;
    // SAFETY: the control is aligned and has room for both: 40 bytes for the longer address, 24 for a number. Its zeros are
    // heads of no length, which is what CMSG_NXTHDR wants to find behind the last.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        match ours {
            Some((IpAddr::V4(ip), _)) => {
                let spec = libc::in_addr { s_addr: u32::from(ip).to_be() };
                let info =
                    libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: spec, ipi_addr: libc::in_addr { s_addr: 0 } };
                used += put(next, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
                next = libc::CMSG_NXTHDR(header, next);
            }
            Some((IpAddr::V6(ip), interface)) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    ipi6_ifindex: interface as _,
                };
                used += put(next, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
                next = libc::CMSG_NXTHDR(header, next);
            }
            None => {}
        }
        if let Some(segment) = segment {
            used += put(next, libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
    }
    header.msg_controllen = used as _;
}

/// Writes one control message; how many bytes it takes.
///
/// # Safety
/// There is room for a head and `data` at `at`.
unsafe fn put<T>(at: *mut libc::cmsghdr, level: libc::c_int, kind: libc::c_int, data: T) -> u32 {
    let len = size_of::<T>() as u32;
    // SAFETY: as the caller says.
    unsafe {
        (*at).cmsg_level = level;
        (*at).cmsg_type = kind;
        (*at).cmsg_len = libc::CMSG_LEN(len) as _;
        std::ptr::write_unaligned(libc::CMSG_DATA(at).cast::<T>(), data);
        libc::CMSG_SPACE(len)
    }
}
