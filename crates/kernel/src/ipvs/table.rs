//! Table of IPVS in the kernel: its requests and responses.

use super::entry::{Key, Options};
use crate::netlink::{Attributes, DUMP, Error, Family, Payload};
use crate::service::Transport;
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Commands of the family, `IPVS_CMD_*` of linux/ip_vs.h.
const NEW_SERVICE: u8 = 1;
const SET_SERVICE: u8 = 2;
const DEL_SERVICE: u8 = 3;
const GET_SERVICE: u8 = 4;
const NEW_DEST: u8 = 5;
const SET_DEST: u8 = 6;
const DEL_DEST: u8 = 7;
const GET_DEST: u8 = 8;
const GET_CONFIG: u8 = 13;
const GET_INFO: u8 = 15;

/// Attributes of a command, at its first level.
const SERVICE: u16 = 1;
const DEST: u16 = 2;
const TIMEOUT_TCP: u16 = 4;
const TIMEOUT_UDP: u16 = 6;

/// Attributes in [`SERVICE`].
mod service {
    pub const FAMILY: u16 = 1;
    pub const PROTOCOL: u16 = 2;
    pub const ADDR: u16 = 3;
    pub const PORT: u16 = 4;
    pub const SCHEDULER: u16 = 6;
    pub const FLAGS: u16 = 7;
    pub const TIMEOUT: u16 = 8;
    pub const NETMASK: u16 = 9;
}

/// Attributes in [`DEST`].
mod dest {
    pub const ADDR: u16 = 1;
    pub const PORT: u16 = 2;
    pub const METHOD: u16 = 3;
    pub const WEIGHT: u16 = 4;
    pub const THRESHOLD_UPPER: u16 = 5;
    pub const THRESHOLD_LOWER: u16 = 6;
    pub const ACTIVE: u16 = 7;
    pub const INACTIVE: u16 = 8;
    pub const FAMILY: u16 = 11;
    pub const STATS64: u16 = 12;
}

/// Attribute of statistics: connections so far.
const CONNECTIONS: u16 = 1;

/// Flag of a service with affinity.
const PERSISTENT: u32 = 1;
/// Flags 1 to 3 of schedulers.
const SCHEDULER_FLAGS: u32 = 0x8 | 0x10 | 0x20;
/// Method of forwarding by NAT.
const MASQUERADING: u32 = 0;
/// Bits of the forwarding method.
const METHODS: u32 = 7;

/// Address families of sockets.
const INET: u16 = 2;
const INET6: u16 = 10;

const VERSION: u8 = 1;

/// Destination as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub addr: SocketAddr,
    pub method: u32,
    pub weight: u32,
    pub active: u32,
    pub inactive: u32,
    pub started: u64,
}

impl Found {
    /// Name of the forwarding method, as `ipvsadm` shows it.
    pub(super) fn method(&self) -> &'static str {
        match self.method & METHODS {
            0 => "Masq",
            1 => "Local",
            2 => "Tunnel",
            3 => "Route",
            _ => "Bypass",
        }
    }
}

/// Connection to the table of a network namespace.
#[derive(Debug)]
pub(super) struct Table(Family);

impl Table {
    pub(super) fn open() -> Result<Table, Error> {
        Ok(Table(Family::open("IPVS", VERSION)?))
    }

    /// Asks for facts that only administrators may know, and that every kernel has.
    pub(super) fn probe(&mut self) -> Result<(), Error> {
        let request = self.0.payload(GET_INFO);
        self.0.request(0, &request, |_| ())
    }

    /// Returns true if the kernel has a scheduler, or does not say. The kernel loads its module.
    pub(super) fn has_scheduler(&mut self, name: &str) -> Result<bool, Error> {
        let mut request = self.0.payload(NEW_SERVICE);
        // The kernel looks the scheduler up first, and then refuses this length of a prefix: no service is made.
        request.nest(SERVICE, |service| {
            write_key(
                service,
                &Key { transport: Transport::Tcp, addr: SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 9) },
            );
            write_options(service, name, 0, 0, PREFIX_REFUSED);
        });
        match self.0.request(0, &request, |_| ()) {
            Err(error) if error.is(Errno::NOENT) => Ok(false),
            Err(error) if error.is(Errno::PERM) => Err(error),
            Err(Error::Refused(..)) => Ok(true),
            Err(error) => Err(error),
            Ok(()) => Err(Error::Malformed),
        }
    }

    pub(super) fn add(&mut self, key: &Key, options: &Options) -> Result<(), Error> {
        self.write_service(NEW_SERVICE, key, options)
    }

    pub(super) fn edit(&mut self, key: &Key, options: &Options) -> Result<(), Error> {
        self.write_service(SET_SERVICE, key, options)
    }

    pub(super) fn delete(&mut self, key: &Key) -> Result<(), Error> {
        let mut request = self.0.payload(DEL_SERVICE);
        request.nest(SERVICE, |service| write_key(service, key));
        self.0.request(0, &request, |_| ())
    }

    pub(super) fn add_dest(&mut self, key: &Key, addr: SocketAddr, weight: u32) -> Result<(), Error> {
        self.write_dest(NEW_DEST, key, addr, Some(weight))
    }

    pub(super) fn edit_dest(&mut self, key: &Key, addr: SocketAddr, weight: u32) -> Result<(), Error> {
        self.write_dest(SET_DEST, key, addr, Some(weight))
    }

    pub(super) fn delete_dest(&mut self, key: &Key, addr: SocketAddr) -> Result<(), Error> {
        self.write_dest(DEL_DEST, key, addr, None)
    }

    /// Returns the services of TCP and UDP that have an address, which those by a mark of the firewall do not have.
    pub(super) fn services(&mut self) -> Result<Vec<(Key, Options)>, Error> {
        let mut services = Vec::new();
        let request = self.0.payload(GET_SERVICE);
        self.0.request(DUMP, &request, |answer| {
            services.extend(answer.first(SERVICE).and_then(|service| read_service(&service.nested())));
        })?;
        Ok(services)
    }

    /// Returns the destinations of a service; none if there is no such service.
    pub(super) fn dests(&mut self, key: &Key) -> Result<Vec<Found>, Error> {
        let mut dests = Vec::new();
        let mut request = self.0.payload(GET_DEST);
        request.nest(SERVICE, |service| write_key(service, key));
        self.0.request(DUMP, &request, |answer| {
            dests.extend(answer.first(DEST).and_then(|dest| read_dest(&dest.nested(), key)));
        })?;
        Ok(dests)
    }

    /// Returns the seconds without a packet after which connections of TCP and flows of UDP end.
    pub(super) fn timeouts(&mut self) -> Result<Option<(u32, u32)>, Error> {
        let mut timeouts = None;
        let request = self.0.payload(GET_CONFIG);
        self.0.request(0, &request, |answer| {
            let seconds = |kind| answer.first(kind)?.u32();
            timeouts = seconds(TIMEOUT_TCP).zip(seconds(TIMEOUT_UDP));
        })?;
        Ok(timeouts)
    }

    fn write_service(&mut self, command: u8, key: &Key, options: &Options) -> Result<(), Error> {
        let mut request = self.0.payload(command);
        request.nest(SERVICE, |service| {
            write_key(service, key);
            write_all_options(service, key, options);
        });
        self.0.request(0, &request, |_| ())
    }

    fn write_dest(&mut self, command: u8, key: &Key, addr: SocketAddr, weight: Option<u32>) -> Result<(), Error> {
        let mut request = self.0.payload(command);
        request.nest(SERVICE, |service| write_key(service, key));
        request.nest(DEST, |dest| write_dest(dest, addr, weight));
        self.0.request(0, &request, |_| ())
    }
}

/// Length of a prefix of IPv6 that no address has.
const PREFIX_REFUSED: u32 = 129;

fn family(addr: &SocketAddr) -> u16 {
    if addr.is_ipv4() { INET } else { INET6 }
}

/// Returns an address as the kernel's union of both families.
fn union(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn read_addr(family: u16, addr: &[u8], port: u16) -> Option<SocketAddr> {
    let ip = match family {
        INET => Ipv4Addr::from(*addr.first_chunk::<4>()?).into(),
        INET6 => Ipv6Addr::from(*addr.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn write_key(service: &mut Payload, key: &Key) {
    service
        .push_u16(service::FAMILY, family(&key.addr))
        .push_u16(service::PROTOCOL, key.transport.number().into())
        .push(service::ADDR, &union(key.addr.ip()))
        .push_u16_be(service::PORT, key.addr.port());
}

fn write_all_options(service: &mut Payload, key: &Key, options: &Options) {
    let flags = options.scheduler_flags | if options.persistent_s.is_some() { PERSISTENT } else { 0 };
    // Each address of a client for itself: IPv4 has a mask in the order of the network, IPv6 a length.
    let netmask = if key.addr.is_ipv4() { u32::MAX } else { 128 };
    write_options(service, &options.scheduler, flags, options.persistent_s.unwrap_or(0), netmask);
}

fn write_options(service: &mut Payload, scheduler: &str, flags: u32, timeout_s: u32, netmask: u32) {
    let mask = PERSISTENT | SCHEDULER_FLAGS;
    service
        .push_text(service::SCHEDULER, scheduler)
        .push(service::FLAGS, &[flags.to_ne_bytes(), mask.to_ne_bytes()].concat())
        .push_u32(service::TIMEOUT, timeout_s)
        .push_u32(service::NETMASK, netmask);
}

fn write_dest(dest: &mut Payload, addr: SocketAddr, weight: Option<u32>) {
    dest.push_u16(dest::FAMILY, family(&addr)).push(dest::ADDR, &union(addr.ip())).push_u16_be(dest::PORT, addr.port());
    if let Some(weight) = weight {
        dest.push_u32(dest::METHOD, MASQUERADING)
            .push_u32(dest::WEIGHT, weight)
            .push_u32(dest::THRESHOLD_UPPER, 0)
            .push_u32(dest::THRESHOLD_LOWER, 0);
    }
}

fn read_service(service: &Attributes<'_>) -> Option<(Key, Options)> {
    let transport = match service.first(service::PROTOCOL)?.u16()? {
        6 => Transport::Tcp,
        17 => Transport::Udp,
        _ => return None,
    };
    let family = service.first(service::FAMILY)?.u16()?;
    let port = service.first(service::PORT)?.u16_be()?;
    let addr = read_addr(family, service.first(service::ADDR)?.bytes, port)?;
    let flags = u32::from_ne_bytes(*service.first(service::FLAGS)?.bytes.first_chunk()?);
    let timeout_s = service.first(service::TIMEOUT)?.u32()?;
    let options = Options {
        scheduler: service.first(service::SCHEDULER)?.text()?.to_owned(),
        scheduler_flags: flags & SCHEDULER_FLAGS,
        persistent_s: (flags & PERSISTENT != 0).then_some(timeout_s),
    };
    Some((Key { transport, addr }, options))
}

fn read_dest(dest: &Attributes<'_>, key: &Key) -> Option<Found> {
    // Old kernels have no families of destinations: it is the service's.
    let family = dest.first(dest::FAMILY).and_then(|family| family.u16()).unwrap_or_else(|| family(&key.addr));
    let port = dest.first(dest::PORT)?.u16_be()?;
    let number = |kind| dest.first(kind)?.u32();
    Some(Found {
        addr: read_addr(family, dest.first(dest::ADDR)?.bytes, port)?,
        method: number(dest::METHOD)?,
        weight: number(dest::WEIGHT)?,
        active: number(dest::ACTIVE)?,
        inactive: number(dest::INACTIVE)?,
        started: dest.first(dest::STATS64)?.nested().first(CONNECTIONS)?.u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::entry::MH_FALLBACK;
    use super::*;
    use proptest::prelude::*;

    fn options(scheduler: &str, scheduler_flags: u32, persistent_s: Option<u32>) -> Options {
        Options { scheduler: scheduler.to_owned(), scheduler_flags, persistent_s }
    }

    fn keys() -> impl Strategy<Value = Key> {
        let transport = prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)];
        let addr = (any::<IpAddr>(), any::<u16>()).prop_map(SocketAddr::from);
        (transport, addr).prop_map(|(transport, addr)| Key { transport, addr })
    }

    #[test]
    fn a_service_with_twos_is_written_as_the_interface_of_the_kernel_says() {
        let key = Key { transport: Transport::Udp, addr: "192.0.2.7:53".parse().unwrap() };
        let mut service = Payload::new(&[]);
        write_key(&mut service, &key);
        write_all_options(&mut service, &key, &options("twos", 0, None));
        let content = |kind: u16| Attributes::after(0, service.bytes()).first(kind).expect("is written").bytes.to_vec();
        assert_eq!(content(1), 2u16.to_ne_bytes());
        assert_eq!(content(2), 17u16.to_ne_bytes());
        assert_eq!(content(3), [192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(content(4), [0, 53]);
        assert_eq!(content(6), b"twos\0");
        assert_eq!(content(7), [0u32.to_ne_bytes(), 0x39u32.to_ne_bytes()].concat());
        assert_eq!(content(8), [0; 4]);
        assert_eq!(content(9), [255; 4]);
    }

    #[test]
    fn a_destination_is_written_whole_or_as_its_identity() {
        let addr = "[2001:db8::1]:8080".parse().unwrap();
        let kinds = |weight| {
            let mut dest = Payload::new(&[]);
            write_dest(&mut dest, addr, weight);
            Attributes::after(0, dest.bytes()).map(|attribute| attribute.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(None), [11, 1, 2]);
        assert_eq!(kinds(Some(7)), [11, 1, 2, 3, 4, 5, 6]);
    }

    proptest! {
        #[test]
        fn services_survive(key in keys(), persistent_s in prop::option::of(1u32..9000), flags in prop::sample::select(vec![0, MH_FALLBACK])) {
            let options = options("mh", flags, persistent_s);
            let mut service = Payload::new(&[]);
            write_key(&mut service, &key);
            write_all_options(&mut service, &key, &options);
            prop_assert_eq!(read_service(&Attributes::after(0, service.bytes())), Some((key, options)));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(key in keys(), rows in prop::collection::vec((0u16..16, prop::collection::vec(any::<u8>(), 0..24)), 0..16)) {
            let mut payload = Payload::new(&[]);
            for (kind, content) in &rows {
                payload.push(*kind, content);
            }
            let _ = read_service(&Attributes::after(0, payload.bytes()));
            let _ = read_dest(&Attributes::after(0, payload.bytes()), &key);
        }
    }
}
