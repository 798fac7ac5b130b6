//! Changes of tables of nftables, which the kernel carries out all or none.

use super::expressions::{COUNTER, DATA_VALUE, ITEM, Rule, goto};
use crate::driver::Fault;
use crate::netlink::{APPEND, Attributes, Batch, CREATE, Payload, Refused};
use std::time::Duration;

/// Number of nftables among the subsystems of nfnetlink.
pub(super) const SUBSYSTEM: u8 = 10;

/// Family of a table, `NFPROTO_*`; the first is for both others.
pub const INET: u8 = 1;
pub const IPV4: u8 = 2;
pub const IPV6: u8 = 10;

/// Requests, `NFT_MSG_*` of linux/netfilter/nf_tables.h.
const NEW_TABLE: u8 = 0;
const DEL_TABLE: u8 = 2;
const NEW_CHAIN: u8 = 3;
const DEL_CHAIN: u8 = 5;
const NEW_RULE: u8 = 6;
const DEL_RULE: u8 = 8;
const NEW_SET: u8 = 9;
const DEL_SET: u8 = 11;
const NEW_ELEMENT: u8 = 12;
const DEL_ELEMENT: u8 = 14;
const NEW_OBJECT: u8 = 18;
const DEL_OBJECT: u8 = 20;

/// Attributes that requests share: the table, and the name of its object.
pub(super) const TABLE: u16 = 1;
pub(super) const NAME: u16 = 2;
pub(super) const CHAIN_NAME: u16 = 3;
pub(super) const TABLE_USERDATA: u16 = 6;
/// Kind of userdata of a table: its comment.
pub(super) const USERDATA_COMMENT: u8 = 0;
pub(super) const OBJECT_TYPE: u16 = 3;
pub(super) const OBJECT_DATA: u16 = 4;
pub(super) const ELEMENTS: u16 = 3;
pub(super) const ELEMENT_KEY: u16 = 1;
pub(super) const ELEMENT_DATA: u16 = 2;
pub(super) const ELEMENT_FLAGS: u16 = 3;
const ELEMENT_OBJECT: u16 = 9;
/// Flag of an element: the numbers from here on are in no range.
pub(super) const INTERVAL_END: u32 = 1;

/// Flags, `NFT_SET_*`.
const INTERVAL: u32 = 4;
const MAP: u32 = 8;
const TIMEOUT: u32 = 0x10;
const EVAL: u32 = 0x20;
const OBJECT: u32 = 0x40;

/// Bytes of elements in a request: an attribute holds less than 64 kB.
const ELEMENTS_MAX: usize = 48 * 1024;

/// Type of keys or values: the number by which `nft` lists them, and their length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    number: u32,
    len: u32,
}

impl Type {
    pub const INTEGER: Type = Type { number: 4, len: 4 };
    pub const IPV4_ADDR: Type = Type { number: 7, len: 4 };
    pub const IPV6_ADDR: Type = Type { number: 8, len: 16 };
    pub const INET_PROTO: Type = Type { number: 12, len: 4 };
    pub const INET_SERVICE: Type = Type { number: 13, len: 4 };
    pub const MARK: Type = Type { number: 19, len: 4 };
    pub const VERDICT: Type = Type { number: 0xffff_ff00, len: 16 };

    /// Type of several in a row, each padded to four bytes.
    pub const fn then(self, next: Type) -> Type {
        Type { number: self.number << 6 | next.number, len: self.len + next.len }
    }
}

/// Collection that rules look keys up in.
#[derive(Clone, Copy, Debug)]
pub enum Set {
    Keys(Type),
    Map(Type, Type),
    Counters(Type),
    /// Map from ranges of numbers.
    Ranges(Type),
    /// Entries that rules write, which end after a time.
    Entries {
        key: Type,
        value: Type,
        max: u32,
        time: Duration,
    },
}

/// Userdata by which `nft` lists the keys of [`Set::Ranges`] as numbers of `numgen`: the byte orders of keys and
/// values, and their types, as it writes them for `typeof numgen inc mod 2 : ct mark`.
const RANGES_USERDATA: [u8; 68] = [
    0x00, 0x04, 0x01, 0x00, 0x00, 0x00, 0x01, 0x04, 0x01, 0x00, 0x00, 0x00, 0x03, 0x1a, 0x00, 0x04, 0x17, 0x00, 0x00,
    0x00, 0x01, 0x12, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x02, 0x04, 0x00, 0x00,
    0x00, 0x00, 0x04, 0x14, 0x00, 0x04, 0x0c, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x03, 0x00, 0x00, 0x00, 0x01,
    0x04, 0xff, 0xff, 0xff, 0xff, 0x06, 0x04, 0x00, 0x00, 0x00, 0x00,
];

/// Userdata of a set, which the kernel keeps for `nft`: the byte order of keys and values if it is the machine's, and
/// the types of ranges.
fn userdata(set: Set, key: Type, value: Option<Type>) -> Vec<u8> {
    if let Set::Ranges(_) = set {
        return RANGES_USERDATA.to_vec();
    }
    let order = |kind: u8, of: Type| (of == Type::MARK).then_some([kind, 4, 1, 0, 0, 0]);
    [order(0, key), value.and_then(|value| order(1, value))].into_iter().flatten().flatten().collect()
}

/// Key of a set, with its value in a map.
#[derive(Clone, Debug)]
pub struct Element {
    pub key: Vec<u8>,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    None,
    /// Start of numbers in no range.
    End,
    Bytes(Vec<u8>),
    Goto(String),
    Counter(String),
}

impl Element {
    pub fn key(key: Vec<u8>) -> Element {
        Element { key, value: Value::None }
    }

    fn write(&self, to: &mut Payload) {
        to.nest(ELEMENT_KEY, |key| _ = key.push(DATA_VALUE, &self.key));
        match &self.value {
            Value::None => {}
            Value::End => _ = to.push_u32_be(ELEMENT_FLAGS, INTERVAL_END),
            Value::Bytes(bytes) => _ = to.nest(ELEMENT_DATA, |data| _ = data.push(DATA_VALUE, bytes)),
            Value::Goto(chain) => _ = to.nest(ELEMENT_DATA, |data| goto(data, chain)),
            Value::Counter(name) => _ = to.push_text(ELEMENT_OBJECT, name),
        }
    }
}

/// Changes in their order, each of a single table.
#[derive(Debug)]
pub struct Transaction {
    /// Table that changes are of.
    family: u8,
    table: String,
    batch: Batch,
    /// Sets that are made here: the kernel wants a number for each.
    sets: u32,
}

impl Transaction {
    pub fn new() -> Transaction {
        Transaction { family: INET, table: String::new(), batch: Batch::new(SUBSYSTEM), sets: 0 }
    }

    /// Chooses the table of the changes that follow.
    pub fn table(&mut self, family: u8, name: &str) {
        (self.family, self.table) = (family, name.to_owned());
    }

    /// Begins changes of a table of all families.
    pub fn inet(name: &str) -> Transaction {
        let mut transaction = Transaction::new();
        transaction.table(INET, name);
        transaction
    }

    fn push(&mut self, kind: u8, flags: u16, fill: impl FnOnce(&mut Payload)) {
        let mut payload = Payload::default();
        payload.push_text(TABLE, &self.table);
        fill(&mut payload);
        self.batch.push(kind, flags, self.family, &payload);
    }

    /// Adds the table, if it is not there.
    pub fn add_table(&mut self, comment: &str) {
        let text = [comment.as_bytes(), &[0]].concat();
        let userdata = [&[USERDATA_COMMENT, text.len() as u8], &text[..]].concat();
        self.push(NEW_TABLE, CREATE, |it| _ = it.push(TABLE_USERDATA, &userdata));
    }

    /// Deletes the table, with all in it.
    pub fn delete_table(&mut self) {
        self.push(DEL_TABLE, 0, |_| ());
    }

    /// Adds a chain, if it is not there.
    pub fn add_chain(&mut self, name: &str) {
        self.push(NEW_CHAIN, CREATE, |it| _ = it.push_text(CHAIN_NAME, name));
    }

    /// Adds a chain that the kernel calls. `kind`: `nat` or `filter`; `hook`: `NF_INET_*`.
    pub fn add_hook(&mut self, name: &str, kind: &str, hook: u32, priority: i32) {
        self.push(NEW_CHAIN, CREATE, |it| {
            it.push_text(CHAIN_NAME, name).push_text(7, kind);
            it.nest(4, |at| _ = at.push_u32_be(1, hook).push_u32_be(2, priority as u32));
        });
    }

    /// Removes the rules of a chain.
    pub fn flush_chain(&mut self, name: &str) {
        self.push(DEL_RULE, 0, |it| _ = it.push_text(NAME, name));
    }

    pub fn delete_chain(&mut self, name: &str) {
        self.push(DEL_CHAIN, 0, |it| _ = it.push_text(CHAIN_NAME, name));
    }

    /// Adds a rule at the end of a chain.
    pub fn add_rule(&mut self, chain: &str, fill: impl FnOnce(&mut Rule)) {
        let mut rule = Rule::default();
        fill(&mut rule);
        self.push(NEW_RULE, CREATE | APPEND, |it| {
            it.push_text(NAME, chain).nest(4, |expressions| expressions.append(rule.payload()));
        });
    }

    /// Adds a set, if it is not there.
    pub fn add_set(&mut self, name: &str, set: Set) {
        self.sets += 1;
        let id = self.sets;
        let (flags, key, value) = match set {
            Set::Keys(key) => (0, key, None),
            Set::Map(key, value) => (MAP, key, Some(value)),
            Set::Counters(key) => (OBJECT, key, None),
            Set::Ranges(value) => (INTERVAL | MAP, Type::INTEGER, Some(value)),
            Set::Entries { key, value, .. } => (MAP | TIMEOUT | EVAL, key, Some(value)),
        };
        self.push(NEW_SET, CREATE, |it| {
            it.push_text(NAME, name).push_u32_be(3, flags).push_u32_be(4, key.number).push_u32_be(5, key.len);
            if let Some(value) = value {
                it.push_u32_be(6, value.number).push_u32_be(7, value.len);
            }
            it.push_u32_be(10, id).push(13, &userdata(set, key, value));
            match set {
                Set::Counters(_) => _ = it.push_u32_be(15, COUNTER),
                Set::Entries { max, time, .. } => {
                    it.nest(9, |size| _ = size.push_u32_be(1, max)).push_u64_be(11, time.as_millis() as u64);
                }
                Set::Keys(_) | Set::Map(..) | Set::Ranges(_) => {}
            }
        });
    }

    /// Removes all elements of a set.
    pub fn flush_set(&mut self, name: &str) {
        self.push(DEL_ELEMENT, 0, |it| _ = it.push_text(NAME, name));
    }

    pub fn delete_set(&mut self, name: &str) {
        self.push(DEL_SET, 0, |it| _ = it.push_text(NAME, name));
    }

    /// Adds elements; those that the set has stay as they are.
    pub fn add_elements(&mut self, set: &str, elements: impl Iterator<Item = Element>) {
        self.elements(NEW_ELEMENT, CREATE, set, elements);
    }

    /// Deletes elements by their keys.
    pub fn delete_elements(&mut self, set: &str, elements: impl Iterator<Item = Element>) {
        self.elements(DEL_ELEMENT, 0, set, elements);
    }

    fn elements(&mut self, kind: u8, flags: u16, set: &str, elements: impl Iterator<Item = Element>) {
        let mut elements = elements.peekable();
        // A request without elements means all of them.
        while elements.peek().is_some() {
            self.push(kind, flags, |it| {
                it.push_text(NAME, set).nest(ELEMENTS, |list| {
                    while list.bytes().len() < ELEMENTS_MAX
                        && let Some(element) = elements.next()
                    {
                        list.nest(ITEM, |item| element.write(item));
                    }
                });
            });
        }
    }

    /// Adds a counter, if it is not there.
    pub fn add_counter(&mut self, name: &str) {
        self.push(NEW_OBJECT, CREATE, |it| {
            it.push_text(NAME, name).push_u32_be(OBJECT_TYPE, COUNTER).nest(OBJECT_DATA, |_| ());
        });
    }

    pub fn delete_counter(&mut self, name: &str) {
        self.push(DEL_OBJECT, 0, |it| _ = it.push_text(NAME, name).push_u32_be(OBJECT_TYPE, COUNTER));
    }

    /// Has the kernel carry them out.
    ///
    /// # Errors
    /// The kernel refuses a change, and has carried none out.
    pub fn apply(mut self) -> Result<(), Fault> {
        self.batch.commit().map_err(|refused| fault("change the rules of nftables", refused))
    }

    /// Has the kernel test them, and change nothing.
    ///
    /// # Errors
    /// The kernel would refuse a change.
    pub fn check(mut self) -> Result<(), Fault> {
        self.batch.check().map_err(|refused| fault("prepare the rules of nftables", refused))
    }
}

fn fault(step: &str, refused: Refused<'_>) -> Fault {
    let Some((kind, attributes)) = refused.request else { return Fault::new(step, refused.error) };
    let (what, name) = match kind {
        NEW_TABLE | DEL_TABLE => ("table", TABLE),
        NEW_CHAIN | DEL_CHAIN => ("chain", CHAIN_NAME),
        NEW_RULE | DEL_RULE => ("rules of the chain", NAME),
        NEW_SET | DEL_SET => ("set", NAME),
        NEW_ELEMENT | DEL_ELEMENT => ("elements of the set", NAME),
        _ => ("counter", NAME),
    };
    let name = Attributes::after(0, attributes).first(name).and_then(|name| name.text()).unwrap_or_default();
    Fault::new(step, format!("{} at the {what} {name}", refused.error))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::listing;
    use super::*;
    use rustix::thread::{UnshareFlags, unshare_unsafe};

    /// Runs `work` on a thread in a separate network namespace, if that can be and rules can be listed.
    pub(crate) fn in_namespace(work: impl FnOnce() + Send + 'static) {
        if !rustix::process::geteuid().is_root() || !evenkeel_peers::installed(&["nft"]) {
            return evenkeel_peers::skip("namespaces need root, and rules are listed by nft");
        }
        let run = || {
            // SAFETY: only the network namespace of this thread changes, which shares no memory or descriptors by it.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root makes namespaces");
            work();
        };
        std::thread::spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    fn with_table() -> Transaction {
        let mut rules = Transaction::inet("tested");
        rules.add_table("of a test");
        rules
    }

    #[test]
    fn one_change_that_is_refused_leaves_all_of_them_out() {
        in_namespace(|| {
            let mut rules = with_table();
            rules.add_counter("e1");
            rules.add_rule("missing", |rule| _ = rule.end());
            rules.flush_set("missing too");
            let fault = rules.apply().expect_err("there is no such chain").to_string();
            assert!(fault.contains("at the rules of the chain missing"), "{fault}");
            assert_eq!(listing::comment("tested").expect("the kernel says"), None);
        });
    }

    #[test]
    fn a_check_changes_nothing() {
        in_namespace(|| {
            with_table().check().expect("it is valid");
            assert_eq!(listing::comment("tested").expect("the kernel says"), None);
            with_table().apply().expect("it is valid");
            assert_eq!(listing::comment("tested").expect("the kernel says").as_deref(), Some("of a test"));
        });
    }

    #[test]
    fn more_elements_than_fit_a_request_are_all_there() {
        in_namespace(|| {
            let mut rules = with_table();
            rules.add_set("numbers", Set::Map(Type::MARK, Type::MARK));
            let element = |n: u32| Element { key: n.to_ne_bytes().into(), value: Value::Bytes(n.to_be_bytes().into()) };
            rules.add_elements("numbers", (0..5000).map(element));
            rules.apply().expect("it is valid");
            let mut listed = listing::elements("tested", "numbers").expect("the kernel says");
            listed.sort_by_key(|it| it.value.clone());
            let expected = (0..5000u32).map(|n| (n.to_ne_bytes().to_vec(), n.to_be_bytes().to_vec()));
            assert!(listed.into_iter().map(|it| (it.key, it.value)).eq(expected));
        });
    }
}
