//! Expressions of rules, as the kernel's machine for nftables takes them: each reads registers and writes others, or
//! ends the rule. Numbers of attributes are from `nft_*_attributes` in linux/netfilter/nf_tables.h, for each
//! expression.

use super::family::Family;
use crate::netlink::Payload;
use crate::service::Transport;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Attribute of a list's item, and attributes of data.
pub(super) const ITEM: u16 = 1;
pub(super) const DATA_VALUE: u16 = 1;
pub(super) const DATA_VERDICT: u16 = 2;
pub(super) const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;
const GOTO: i32 = -4;
const RETURN: i32 = -5;
const DROP: i32 = 0;

/// Attributes of an expression.
const NAME: u16 = 1;
const DATA: u16 = 2;

/// Kind of an object: a counter.
pub(super) const COUNTER: u32 = 1;

/// Keys of `meta` and of `ct`.
const NFPROTO: u32 = 15;
pub(super) const L4PROTO: u32 = 16;
const CT_STATE: u32 = 0;
const CT_MARK: u32 = 3;
const CT_PORT: u32 = 12;
const CT_ADDR4: u32 = 20;
const CT_ADDR6: u32 = 22;

/// Bits of `ct state`.
pub const STATE_INVALID: u32 = 1;
pub const STATE_NEW: u32 = 8;

/// Byte of the flags in the head of TCP, and the flag of a reset.
const TCP_FLAGS: u32 = 13;
const TCP_RESET: u8 = 4;

/// Register of 32 bits, of 16; longer values occupy those that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(u32);

impl Register {
    const VERDICT: Register = Register(0);
    pub const FIRST: Register = Register(8);
    /// Register after an address of either family.
    const SECOND: Register = Register(12);

    const fn after(self, bytes: u32) -> Register {
        Register(self.0 + bytes.div_ceil(4))
    }
}

/// Source of numbers below a modulus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    Random,
    /// Several numbers in their order.
    Turns,
    /// Hash of the client's address.
    Hash {
        seed: u32,
    },
}

/// Address in the head of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    Source,
    Destination,
}

/// Rule that is written: each method adds an expression, in this order.
#[derive(Debug, Default)]
pub struct Rule(Payload);

impl Rule {
    pub fn payload(&self) -> &Payload {
        &self.0
    }

    fn push(&mut self, name: &str, attributes: impl FnOnce(&mut Payload)) -> &mut Rule {
        self.0.nest(ITEM, |expression| {
            expression.push_text(NAME, name).nest(DATA, attributes);
        });
        self
    }

    fn load(&mut self, name: &str, key: u32, to: Register) -> &mut Rule {
        self.push(name, |it| _ = it.push_u32_be(1, to.0).push_u32_be(2, key))
    }

    fn compare(&mut self, operator: u32, with: &[u8]) -> &mut Rule {
        self.push("cmp", |it| {
            it.push_u32_be(1, Register::FIRST.0)
                .push_u32_be(2, operator)
                .nest(3, |data| _ = data.push(DATA_VALUE, with));
        })
    }

    /// Continues if the transport protocol matches.
    pub fn is_transport(&mut self, transport: Transport) -> &mut Rule {
        self.load("meta", L4PROTO, Register::FIRST).compare(0, &[transport.number()])
    }

    /// Continues if connection tracking has any of these states for the packet.
    pub fn is_state(&mut self, states: u32) -> &mut Rule {
        self.load("ct", CT_STATE, Register::FIRST);
        self.push("bitwise", |it| {
            it.push_u32_be(1, Register::FIRST.0).push_u32_be(2, Register::FIRST.0).push_u32_be(3, 4);
            it.nest(4, |mask| _ = mask.push(DATA_VALUE, &states.to_ne_bytes()));
            it.nest(5, |xor| _ = xor.push(DATA_VALUE, &[0; 4]));
        });
        self.compare(1, &[0; 4])
    }

    /// Goes on for a packet of TCP that resets a connection.
    pub fn is_reset(&mut self) -> &mut Rule {
        self.is_transport(Transport::Tcp).bytes_of(2, TCP_FLAGS, 1, Register::FIRST);
        self.push("bitwise", |it| {
            it.push_u32_be(1, Register::FIRST.0).push_u32_be(2, Register::FIRST.0).push_u32_be(3, 1);
            it.nest(4, |mask| _ = mask.push(DATA_VALUE, &[TCP_RESET]));
            it.nest(5, |xor| _ = xor.push(DATA_VALUE, &[0]));
        });
        self.compare(1, &[0])
    }

    /// Goes on for packets of connections that clients made to this address.
    pub fn is_to(&mut self, addr: SocketAddr) -> &mut Rule {
        let original = |rule: &mut Rule, key: u32, value: &[u8]| {
            rule.push("ct", |it| _ = it.push_u32_be(1, Register::FIRST.0).push_u32_be(2, key).push_u8(3, 0))
                .compare(0, value);
        };
        match addr.ip() {
            IpAddr::V4(ip) => original(self, CT_ADDR4, &ip.octets()),
            IpAddr::V6(ip) => original(self, CT_ADDR6, &ip.octets()),
        }
        original(self, CT_PORT, &addr.port().to_be_bytes());
        self
    }

    /// Goes on for packets of a family, and loads an address of them.
    pub fn address(&mut self, family: Family, which: Address, to: Register) -> &mut Rule {
        self.load("meta", NFPROTO, Register::FIRST).compare(0, &[family.protocol()]);
        let offset = match (family, which) {
            (Family::V4, Address::Source) => 12,
            (Family::V4, Address::Destination) => 16,
            (Family::V6, Address::Source) => 8,
            (Family::V6, Address::Destination) => 24,
        };
        self.bytes_of(1, offset, family.address_len(), to)
    }

    /// Goes on for packets of a family, and loads their destination as the key of a map: address, protocol, port.
    pub fn destination(&mut self, family: Family) -> &mut Rule {
        let protocol = Register::FIRST.after(family.address_len());
        self.address(family, Address::Destination, Register::FIRST).load("meta", L4PROTO, protocol);
        self.bytes_of(2, 2, 2, protocol.after(4))
    }

    /// `base`: 1 for the head of the network layer, 2 of the transport.
    fn bytes_of(&mut self, base: u32, offset: u32, len: u32, to: Register) -> &mut Rule {
        self.push("payload", |it| {
            it.push_u32_be(1, to.0).push_u32_be(2, base).push_u32_be(3, offset).push_u32_be(4, len);
        })
    }

    /// Goes on if the set has the key.
    pub fn is_in(&mut self, set: &str) -> &mut Rule {
        self.push("lookup", |it| _ = it.push_text(1, set).push_u32_be(2, Register::FIRST.0))
    }

    /// Goes on if the map has the key, and loads its value.
    pub fn look_up(&mut self, map: &str) -> &mut Rule {
        self.look_up_to(map, Register::FIRST)
    }

    /// Continues where the map says, if it has the key.
    pub fn verdict_of(&mut self, map: &str) -> &mut Rule {
        self.look_up_to(map, Register::VERDICT)
    }

    fn look_up_to(&mut self, map: &str, to: Register) -> &mut Rule {
        self.push("lookup", |it| _ = it.push_text(1, map).push_u32_be(2, Register::FIRST.0).push_u32_be(3, to.0))
    }

    /// Loads the mark of the connection.
    pub fn mark(&mut self) -> &mut Rule {
        self.load("ct", CT_MARK, Register::FIRST)
    }

    /// Sets the mark of the connection to the value.
    pub fn set_mark(&mut self) -> &mut Rule {
        self.push("ct", |it| _ = it.push_u32_be(2, CT_MARK).push_u32_be(4, Register::FIRST.0))
    }

    /// Writes a value to the register that others read.
    pub fn value(&mut self, value: u32) -> &mut Rule {
        self.push("immediate", |it| {
            it.push_u32_be(1, Register::FIRST.0).nest(2, |data| _ = data.push(DATA_VALUE, &value.to_ne_bytes()));
        })
    }

    /// Loads a number below the modulus, in network byte order, as maps of ranges compare it.
    pub fn number(&mut self, numbers: Numbers, modulus: u32, family: Family) -> &mut Rule {
        let generated = |rule: &mut Rule, kind: u32| {
            rule.push("numgen", |it| {
                _ = it.push_u32_be(1, Register::FIRST.0).push_u32_be(2, modulus).push_u32_be(3, kind)
            });
        };
        match numbers {
            Numbers::Turns => generated(self, 0),
            Numbers::Random => generated(self, 1),
            Numbers::Hash { seed } => {
                self.address(family, Address::Source, Register::SECOND).push("hash", |it| {
                    it.push_u32_be(1, Register::SECOND.0)
                        .push_u32_be(2, Register::FIRST.0)
                        .push_u32_be(3, family.address_len());
                    it.push_u32_be(4, modulus).push_u32_be(5, seed).push_u32_be(7, 0);
                });
            }
        }
        self.push("byteorder", |it| {
            it.push_u32_be(1, Register::FIRST.0)
                .push_u32_be(2, Register::FIRST.0)
                .push_u32_be(3, 1)
                .push_u32_be(4, 4)
                .push_u32_be(5, 4);
        })
    }

    /// Notes the mark of the connection for a client's address, or begins the time of that entry anew.
    pub fn remember(&mut self, map: &str, family: Family, time: Duration) -> &mut Rule {
        self.on_client(map, family, 1, Some(time))
    }

    /// Removes the entry of a client's address.
    pub fn forget(&mut self, map: &str, family: Family) -> &mut Rule {
        self.on_client(map, family, 2, None)
    }

    fn on_client(&mut self, map: &str, family: Family, operator: u32, time: Option<Duration>) -> &mut Rule {
        self.address(family, Address::Source, Register::FIRST).load("ct", CT_MARK, Register::SECOND).push(
            "dynset",
            |it| {
                it.push_text(1, map)
                    .push_u32_be(3, operator)
                    .push_u32_be(4, Register::FIRST.0)
                    .push_u32_be(5, Register::SECOND.0);
                time.iter().for_each(|time| _ = it.push_u64_be(6, time.as_millis() as u64));
            },
        )
    }

    /// Counts by the counter that the map has for the key.
    pub fn count(&mut self, map: &str) -> &mut Rule {
        self.push("objref", |it| _ = it.push_u32_be(3, Register::FIRST.0).push_text(4, map))
    }

    /// Counts the packet by a counter of the table.
    pub fn count_by(&mut self, counter: &str) -> &mut Rule {
        self.push("objref", |it| _ = it.push_u32_be(1, COUNTER).push_text(2, counter))
    }

    /// Translates the destination to the value, an address and a port.
    pub fn translate(&mut self, family: Family) -> &mut Rule {
        let port = Register::FIRST.after(family.address_len());
        self.push("nat", |it| {
            it.push_u32_be(1, 1).push_u32_be(2, family.protocol().into());
            it.push_u32_be(3, Register::FIRST.0).push_u32_be(5, port.0);
        })
    }

    /// Translates the source to an address of this machine.
    pub fn masquerade(&mut self) -> &mut Rule {
        self.push("masq", |_| ())
    }

    /// Refuses by a reset of TCP.
    pub fn reset(&mut self) -> &mut Rule {
        self.push("reject", |it| _ = it.push_u32_be(1, 1).push_u8(2, 0))
    }

    /// Refuses by a message of ICMP that the port is unreachable.
    pub fn unreachable(&mut self) -> &mut Rule {
        self.push("reject", |it| _ = it.push_u32_be(1, 2).push_u8(2, 1))
    }

    /// Leaves the chain, as `return`.
    pub fn end(&mut self) -> &mut Rule {
        self.verdict(RETURN)
    }

    /// Drops the packet, without an answer.
    pub fn drop(&mut self) -> &mut Rule {
        self.verdict(DROP)
    }

    fn verdict(&mut self, code: i32) -> &mut Rule {
        self.push("immediate", |it| {
            it.push_u32_be(1, Register::VERDICT.0);
            it.nest(2, |data| {
                _ = data.nest(DATA_VERDICT, |verdict| _ = verdict.push_u32_be(VERDICT_CODE, code as u32))
            });
        })
    }

    /// Continues in a chain, for good.
    pub fn goto(&mut self, chain: &str) -> &mut Rule {
        self.push("immediate", |it| _ = it.push_u32_be(1, Register::VERDICT.0).nest(2, |data| goto(data, chain)))
    }
}

/// Writes the verdict to continue in a chain.
pub(super) fn goto(data: &mut Payload, chain: &str) {
    data.nest(DATA_VERDICT, |verdict| {
        _ = verdict.push_u32_be(VERDICT_CODE, GOTO as u32).push_text(VERDICT_CHAIN, chain)
    });
}
