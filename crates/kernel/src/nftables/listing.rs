//! Lists of what a table of nftables has.

use super::expressions::{COUNTER, DATA_VALUE, ITEM};
use super::transaction::{
    ELEMENT_DATA, ELEMENT_FLAGS, ELEMENT_KEY, ELEMENTS, INET, INTERVAL_END, NAME, OBJECT_DATA, OBJECT_TYPE,
    SUBSYSTEM, TABLE, TABLE_USERDATA, USERDATA_COMMENT,
};
use crate::driver::Fault;
use crate::netlink::{Attribute, Attributes, DUMP, NETFILTER, Payload, Socket};
use rustix::io::Errno;

/// Requests, `NFT_MSG_*` of linux/netfilter/nf_tables.h.
const GET_TABLE: u8 = 1;
const GET_ELEMENT: u8 = 13;
const GET_OBJECT: u8 = 19;

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

/// Returns what the answers of the kernel say; `None` if what is asked for does not exist.
fn list<T>(
    what: &str,
    kind: u8,
    flags: u16,
    fill: impl FnOnce(&mut Payload),
    parse: impl Fn(Attributes<'_>) -> Option<T>,
) -> Result<Option<Vec<T>>, Fault> {
    let mut request = Payload::new(&[INET, 0, 0, 0]);
    fill(&mut request);
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(kind);
    let answers = Socket::open(NETFILTER).and_then(|mut socket| socket.request(kind, flags, &request));
    match answers {
        Ok(answers) => {
            let parsed = answers.iter().filter_map(|answer| parse(Attributes::after(HEADER, &answer.payload)));
            Ok(Some(parsed.collect()))
        }
        Err(error) if error.is(Errno::NOENT) => Ok(None),
        Err(error) => Err(Fault::new(format!("list {what} of nftables"), error)),
    }
}
