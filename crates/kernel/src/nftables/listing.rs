//! Lists of the contents of a table of nftables.

use super::conditions::{Rule, family_name};
use super::expressions::{COUNTER, DATA_VALUE, ITEM};
use super::transaction::{
    CHAIN_NAME, ELEMENT_DATA, ELEMENT_FLAGS, ELEMENT_KEY, ELEMENTS, INET, INTERVAL_END, NAME, OBJECT_DATA, OBJECT_TYPE,
    SUBSYSTEM, TABLE, TABLE_USERDATA, USERDATA_COMMENT,
};
use crate::driver::Fault;
use crate::netlink::{Attribute, Attributes, DUMP, NETFILTER, Payload, Socket};
use rustix::io::Errno;

/// Requests, `NFT_MSG_*` of linux/netfilter/nf_tables.h.
const GET_TABLE: u8 = 1;
const GET_CHAIN: u8 = 4;
const GET_RULE: u8 = 7;
const GET_ELEMENT: u8 = 13;
const GET_OBJECT: u8 = 19;

/// Attributes of a chain: hook with priority, and policy.
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;

/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;

/// Number of packets of a counter, `NFTA_COUNTER_PACKETS`.
const PACKETS: u16 = 2;

/// Returns the comment of the table; `None` if there is no such table.
///
/// # Errors
/// The kernel refuses to say.
pub fn comment(table: &str) -> Result<Option<String>, Fault> {
    let comment = |all: Attributes<'_>| {
        let userdata = all.first(TABLE_USERDATA).map(|userdata| userdata.bytes).unwrap_or_default();
        let text = match userdata {
            [USERDATA_COMMENT, len, rest @ ..] => rest.get(..usize::from(*len)).unwrap_or_default(),
            _ => &[],
        };
        Some(Attribute { kind: TABLE_USERDATA, bytes: text }.text().unwrap_or_default().to_owned())
    };
    let listed = list("the table", GET_TABLE, 0, |request| _ = request.push_text(TABLE, table), comment)?;
    Ok(listed.and_then(|tables| tables.into_iter().next()))
}

/// Key of a set, and its value.
#[derive(Debug, PartialEq, Eq)]
pub struct Listed {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// True if numbers from here on are in no range.
    pub is_end: bool,
}

/// Returns the elements of a set; none if there is no such set.
///
/// # Errors
/// The kernel refuses to say.
pub fn elements(table: &str, set: &str) -> Result<Vec<Listed>, Fault> {
    let value = |of: Attribute<'_>| of.nested().first(DATA_VALUE).map(|value| value.bytes.to_vec());
    let element = |item: Attribute<'_>| {
        let all = item.nested();
        let flags = all.first(ELEMENT_FLAGS).and_then(|flags| flags.u32_be()).unwrap_or_default();
        let key = all.first(ELEMENT_KEY).and_then(value)?;
        let value = all.first(ELEMENT_DATA).and_then(value).unwrap_or_default();
        Some(Listed { key, value, is_end: flags & INTERVAL_END != 0 })
    };
    let parse = |all: Attributes<'_>| {
        let items = all.first(ELEMENTS)?.nested().filter(|item| item.kind == ITEM);
        Some(items.filter_map(element).collect::<Vec<_>>())
    };
    let of_set = |request: &mut Payload| _ = request.push_text(TABLE, table).push_text(NAME, set);
    let listed = list("elements of a set", GET_ELEMENT, DUMP, of_set, parse)?;
    Ok(listed.unwrap_or_default().into_iter().flatten().collect())
}

/// Returns the counters of a table, each with its name and its packets.
///
/// # Errors
/// The kernel refuses to say.
pub fn counters(table: &str) -> Result<Vec<(String, u64)>, Fault> {
    let counter = |all: Attributes<'_>| {
        let packets = all.first(OBJECT_DATA)?.nested().first(PACKETS)?.u64_be()?;
        Some((all.first(NAME)?.text()?.to_owned(), packets))
    };
    let of_table = |request: &mut Payload| _ = request.push_text(TABLE, table).push_u32_be(OBJECT_TYPE, COUNTER);
    Ok(list("counters", GET_OBJECT, DUMP, of_table, counter)?.unwrap_or_default())
}

/// Chain of a table, of whatever family.
#[derive(Clone, Debug)]
pub struct Chain {
    pub family: u8,
    pub table: String,
    pub name: String,
    /// Hook from which the kernel calls it, `NF_INET_*`.
    pub hook: Option<u32>,
    pub priority: Option<i32>,
    /// True if packets that no rule accepts are dropped.
    pub drops: bool,
}

impl Chain {
    /// True if the kernel calls it from a hook.
    pub fn is_at(&self, hook: u32) -> bool {
        self.hook == Some(hook)
    }

    pub fn family_name(&self) -> &'static str {
        family_name(self.family)
    }

    /// Place of the chain in words, with its table.
    pub fn place(&self) -> String {
        format!("chain {} of table {} {}", self.name, self.family_name(), self.table)
    }
}

/// Returns the chains of all tables.
///
/// # Errors
/// The kernel refuses to say.
pub fn chains() -> Result<Vec<Chain>, Fault> {
    let parse = |family: u8, all: Attributes<'_>| {
        let text = |kind| all.first(kind).and_then(|it| it.text().map(str::to_owned));
        let hook = all.first(CHAIN_HOOK).map(|hook| hook.nested());
        let of_hook = |kind| hook.as_ref().and_then(|hook| hook.first(kind)?.u32_be());
        Some(Chain {
            family,
            table: text(TABLE)?,
            name: text(CHAIN_NAME)?,
            hook: of_hook(1),
            priority: of_hook(2).map(u32::cast_signed),
            drops: all.first(CHAIN_POLICY).and_then(|policy| policy.u32_be()) == Some(0),
        })
    };
    Ok(list_of(0, "chains", GET_CHAIN, DUMP, |_| (), parse)?.unwrap_or_default())
}

/// Returns the rules of a table.
///
/// # Errors
/// The kernel refuses to say.
pub fn rules(family: u8, table: &str) -> Result<Vec<Rule>, Fault> {
    let of_table = |request: &mut Payload| _ = request.push_text(TABLE, table);
    let parse = |family: u8, all: Attributes<'_>| Rule::parse(family, &all);
    let mut rules = list_of(family, "rules", GET_RULE, DUMP, of_table, parse)?.unwrap_or_default();
    // Old kernels list the objects of all tables.
    rules.retain(|rule| rule.family == family && rule.table == table);
    Ok(rules)
}

/// Returns the kernel's answers about tables of all families; `None` if the object does not exist.
fn list<T>(
    what: &str,
    kind: u8,
    flags: u16,
    fill: impl FnOnce(&mut Payload),
    parse: impl Fn(Attributes<'_>) -> Option<T>,
) -> Result<Option<Vec<T>>, Fault> {
    list_of(INET, what, kind, flags, fill, |_, all| parse(all))
}

/// Like [`list`], for tables of a family; 0 is any. `parse` gets the family of each answer.
fn list_of<T>(
    family: u8,
    what: &str,
    kind: u8,
    flags: u16,
    fill: impl FnOnce(&mut Payload),
    parse: impl Fn(u8, Attributes<'_>) -> Option<T>,
) -> Result<Option<Vec<T>>, Fault> {
    let mut request = Payload::new(&[family, 0, 0, 0]);
    fill(&mut request);
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(kind);
    let answers = Socket::open(NETFILTER).and_then(|mut socket| socket.request(kind, flags, &request));
    match answers {
        Ok(answers) => {
            let parsed = answers.iter().filter_map(|answer| {
                parse(answer.payload.first().copied()?, Attributes::after(HEADER, &answer.payload))
            });
            Ok(Some(parsed.collect()))
        }
        Err(error) if error.is(Errno::NOENT) => Ok(None),
        Err(error) => Err(Fault::new(format!("list {what} of nftables"), error)),
    }
}
