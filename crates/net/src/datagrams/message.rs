//! Parts of a message header besides its bytes: the destination address, and control messages for the source
//! address and the segment size.

use std::net::{IpAddr, SocketAddr};

/// Space for control messages, in bytes: a source address and a segment size, each with its header.
pub const CONTROL: usize = 64;

/// Control buffer. Made of `u64` for its alignment.
pub type Control = [u64; CONTROL / 8];

/// Socket address in the kernel's format, without padding to the larger kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
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

    /// Length in bytes of an address in this format.
    #[inline]
    pub fn len(addr: SocketAddr) -> libc::socklen_t {
        let len = if addr.is_ipv4() { size_of::<libc::sockaddr_in>() } else { size_of::<libc::sockaddr_in6>() };
        len as libc::socklen_t
    }
}

/// Writes control messages for the source address and the segment size. The header has a zeroed control
/// buffer of [`CONTROL`] bytes.
pub fn write_control(header: &mut libc::msghdr, ours: Option<(IpAddr, u32)>, segment: Option<u16>) {
    let mut used = 0;
    // SAFETY: the buffer is aligned and has room for both: 40 bytes for the longer address, 24 for a number.
    // Its zeros are headers of length 0, which CMSG_NXTHDR expects after the last message.
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

/// Writes a control message, and returns the space it takes in bytes.
///
/// # Safety
/// There must be room for a header and `data` at `at`.
unsafe fn put<T>(at: *mut libc::cmsghdr, level: libc::c_int, kind: libc::c_int, data: T) -> u32 {
    let len = size_of::<T>() as u32;
    // SAFETY: guaranteed by the caller.
    unsafe {
        (*at).cmsg_level = level;
        (*at).cmsg_type = kind;
        (*at).cmsg_len = libc::CMSG_LEN(len) as _;
        std::ptr::write_unaligned(libc::CMSG_DATA(at).cast::<T>(), data);
        libc::CMSG_SPACE(len)
    }
}
