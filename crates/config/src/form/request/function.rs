//! Functions of variables: `{header.X-Forwarded-For|before(,)|lower}`. Each has a row in [`FUNCTIONS`]. They have a
//! result for every value, and work in place.

use super::variable::bad;
use crate::form::misfit::Misfit;
use crate::nearest::suggest;
use crate::tree::quoted;
use std::sync::Arc;

/// Most functions of a variable.
const COUNT_MAX: usize = 8;

/// Greatest number of a word, counted from either end.
const NUMBER_MAX: i32 = 100;

/// A function that changes the value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Function {
    Lower,
    Upper,
    /// The value without spaces and tabs at its ends.
    Trim,
    /// Text before the first occurrence of a text; the whole value if it has none.
    Before(Arc<str>),
    /// Text behind the first occurrence of a text; empty if the value has none.
    After(Arc<str>),
    /// Word of this number between characters of a list, from the end if negative. Empty words do not count.
    Word(i32, Arc<str>),
    /// Like [`Function::Word`], but empty words count.
    Field(i32, Arc<str>),
    /// The second text for each occurrence of the first.
    Replace(Arc<str>, Arc<str>),
    /// Bytes for their percent escapes; text that is not an escape stays.
    UrlDecode,
    /// Percent escapes for all bytes other than letters, digits and `-._~`.
    UrlEncode,
    /// Percent escapes for bytes that would end a path or lead out of it. Only behind `url_decode`.
    PathEncode,
    /// Percent escapes for bytes that would end a value of a query; escapes stay.
    QueryEncode,
    /// Text if the value is empty.
    Default(Arc<str>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    None,
    Text,
    NumberAndText,
    TwoTexts,
}

struct Row {
    name: &'static str,
    /// Call of the function, for messages.
    example: &'static str,
    arguments: Arguments,
    /// Creates the function of a number and two texts. Unused arguments are 0 and empty.
    of: fn(i32, Arc<str>, Arc<str>) -> Function,
}

const FUNCTIONS: &[Row] = &[
    Row { name: "lower", example: "lower", arguments: Arguments::None, of: |_, _, _| Function::Lower },
    Row { name: "upper", example: "upper", arguments: Arguments::None, of: |_, _, _| Function::Upper },
    Row { name: "trim", example: "trim", arguments: Arguments::None, of: |_, _, _| Function::Trim },
    Row { name: "before", example: "before(,)", arguments: Arguments::Text, of: |_, text, _| Function::Before(text) },
    Row { name: "after", example: "after(:)", arguments: Arguments::Text, of: |_, text, _| Function::After(text) },
    Row {
        name: "word",
        example: "word(2,/)",
        arguments: Arguments::NumberAndText,
        of: |number, text, _| Function::Word(number, text),
    },
    Row {
        name: "field",
        example: "field(2,:)",
        arguments: Arguments::NumberAndText,
        of: |number, text, _| Function::Field(number, text),
    },
    Row {
        name: "replace",
        example: "replace(_,-)",
        arguments: Arguments::TwoTexts,
        of: |_, old, new| Function::Replace(old, new),
    },
    Row { name: "url_decode", example: "url_decode", arguments: Arguments::None, of: |_, _, _| Function::UrlDecode },
    Row { name: "url_encode", example: "url_encode", arguments: Arguments::None, of: |_, _, _| Function::UrlEncode },
    Row {
        name: "default",
        example: "default(none)",
        arguments: Arguments::Text,
        of: |_, text, _| Function::Default(text),
    },
];

/// Names of others, and the function to write.
const ELSEWHERE: &[(&str, &str)] = &[
    ("url_dec", "url_decode"),
    ("urldecode", "url_decode"),
    ("url_enc", "url_encode"),
    ("urlencode", "url_encode"),
    ("tolower", "lower"),
    ("lowercase", "lower"),
    ("strip", "trim"),
    ("toupper", "upper"),
    ("uppercase", "upper"),
    ("regsub", "replace"),
    ("sub", "replace"),
    ("split", "word"),
    ("first", "before"),
    ("or", "default"),
];

/// Reads the functions behind a variable: what follows the first `|`.
pub(super) fn read(mut text: &str) -> Result<Vec<Function>, Misfit> {
    let mut all = Vec::new();
    loop {
        let (function, rest) = one(text.trim_start())?;
        all.push(function);
        let rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let Some(next) = rest.strip_prefix('|') else {
            return Err(bad(format!("{} follows a function", quoted(rest)), "write | between functions"));
        };
        text = next;
    }
    match all.len() {
        count if count > COUNT_MAX => {
            Err(bad(format!("a variable has {count} functions"), format!("at most {COUNT_MAX}")))
        }
        _ => Ok(all),
    }
}

/// Reads a function. Returns the text behind it, too.
fn one(text: &str) -> Result<(Function, &str), Misfit> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let Some(row) = FUNCTIONS.iter().find(|row| row.name == name) else {
        let meant = ELSEWHERE.iter().find(|(theirs, _)| name.eq_ignore_ascii_case(theirs));
        let names: Vec<&str> = FUNCTIONS.iter().map(|row| row.name).collect();
        let help = match meant {
            Some((_, ours)) => {
                format!("write {}", FUNCTIONS.iter().find(|row| row.name == *ours).map_or("", |r| r.example))
            }
            None => suggest(name, &names),
        };
        return Err(bad(format!("unknown function {}", quoted(name)), help));
    };
    let wrong = |why: &str| bad(format!("{name} {why}"), format!("write {{header.X-Id|{}}}", row.example));
    if row.arguments == Arguments::None {
        return match rest.starts_with('(') {
            true => Err(wrong("takes no argument")),
            false => Ok(((row.of)(0, "".into(), "".into()), rest)),
        };
    }
    let Some(mut inside) = rest.strip_prefix('(') else { return Err(wrong("needs an argument")) };
    let (mut number, mut second) = (0, "".to_owned());
    if row.arguments == Arguments::NumberAndText {
        let read = inside.split_once(',').and_then(|(first, rest)| Some((first.trim().parse::<i32>().ok()?, rest)));
        let Some((first, after)) = read.filter(|(first, _)| *first != 0 && first.abs() <= NUMBER_MAX) else {
            return Err(wrong("needs a number, from 1 or from -1 at the end, and characters to split at"));
        };
        (number, inside) = (first, after);
    }
    let is_one = row.arguments != Arguments::TwoTexts;
    let (first, after) = argument(inside, is_one).ok_or_else(|| wrong("has an argument without an end"))?;
    let mut rest = after;
    if !is_one {
        let after = after.strip_prefix(',').ok_or_else(|| wrong("needs two texts"))?;
        (second, rest) = argument(after, true).ok_or_else(|| wrong("has an argument without an end"))?;
    }
    let Some(rest) = rest.strip_prefix(')') else { return Err(wrong("has an argument without an end")) };
    if first.is_empty() {
        return Err(wrong("has an empty argument"));
    }
    Ok(((row.of)(number, first.into(), second.into()), rest))
}

/// Reads an argument: text in single quotes, in which two are one, or text up to the parenthesis, and to a comma unless
/// it is the last one. Returns the text behind it, too.
fn argument(text: &str, is_last: bool) -> Option<(String, &str)> {
    let Some(mut rest) = text.trim_start().strip_prefix('\'') else {
        let end = text.find(|c| c == ')' || c == ',' && !is_last)?;
        return Some((text[..end].trim().to_owned(), &text[end..]));
    };
    let mut out = String::new();
    loop {
        let (before, after) = rest.split_once('\'')?;
        out.push_str(before);
        match after.strip_prefix('\'') {
            Some(more) => {
                out.push('\'');
                rest = more;
            }
            None => return Some((out, after.trim_start())),
        }
    }
}

/// Functions that a value with these needs in addition, so that what was decoded cannot end the part of a URL that it is
/// in: a path, or behind a question mark a query.
pub(super) fn protected(functions: &mut Vec<Function>, is_query: bool) {
    let last = functions.iter().rev().find(|one| matches!(one, Function::UrlDecode | Function::UrlEncode));
    if last == Some(&Function::UrlDecode) {
        functions.push(if is_query { Function::UrlEncode } else { Function::PathEncode });
    }
}

impl Function {
    /// Changes the value that begins at `at`. Without an error, the value has at most `most` bytes afterwards, or is no
    /// longer than before.
    ///
    /// # Errors
    /// The value would be longer.
    pub fn apply(&self, out: &mut Vec<u8>, at: usize, most: usize) -> Result<(), TooLong> {
        let value = &out[at..];
        match self {
            Function::Lower => out[at..].make_ascii_lowercase(),
            Function::Upper => out[at..].make_ascii_uppercase(),
            Function::Trim => keep(out, at, trimmed),
            Function::Before(text) => {
                let len = find(value, text.as_bytes()).unwrap_or(value.len());
                out.truncate(at + len);
            }
            Function::After(text) => {
                let from = find(value, text.as_bytes()).map_or(value.len(), |found| found + text.len());
                out.drain(at..at + from);
            }
            Function::Word(number, between) => keep(out, at, |value| word(value, *number, between.as_bytes(), false)),
            Function::Field(number, between) => keep(out, at, |value| word(value, *number, between.as_bytes(), true)),
            Function::Replace(old, new) => return replace(out, at, (old.as_bytes(), new.as_bytes()), most),
            Function::UrlDecode => decode(out, at),
            Function::UrlEncode => return encode(out, at, most, |byte, _| is_unreserved(byte)),
            Function::PathEncode => {
                return encode(out, at, most, |byte, before| match byte {
                    b'/' => before != Some(b'/'),
                    byte => is_unreserved(byte) || b"!$&'()*+,=:@".contains(&byte),
                });
            }
            Function::QueryEncode => {
                return encode(out, at, most, |byte, _| is_unreserved(byte) || b"%/:@!$'()*,".contains(&byte));
            }
            Function::Default(text) if value.is_empty() => out.extend_from_slice(text.as_bytes()),
            Function::Default(_) => {}
        }
        Ok(())
    }
}

/// Error for a value that a function would make too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Place of the first occurrence of a text, which is not empty.
fn find(value: &[u8], text: &[u8]) -> Option<usize> {
    value.windows(text.len()).position(|part| part == text)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Keeps a part of the value.
fn keep(out: &mut Vec<u8>, at: usize, part: impl FnOnce(&[u8]) -> std::ops::Range<usize>) {
    let part = part(&out[at..]);
    out.truncate(at + part.end);
    out.drain(at..at + part.start);
}

/// Range of the value without spaces and tabs at its ends.
fn trimmed(value: &[u8]) -> std::ops::Range<usize> {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let from = value.iter().position(is_text).unwrap_or(value.len());
    from..value.iter().rposition(is_text).map_or(from, |last| last + 1)
}

/// Range of a word; empty if there are not as many.
fn word(value: &[u8], number: i32, between: &[u8], counts_empty: bool) -> std::ops::Range<usize> {
    let mut from = 0;
    let words = value.split(|byte| between.contains(byte)).map(|word| {
        let range = from..from + word.len();
        from = range.end + 1;
        range
    });
    let mut words = words.filter(|word| counts_empty || !word.is_empty());
    let nth = number.unsigned_abs() as usize - 1;
    match number > 0 {
        true => words.nth(nth),
        false => {
            // Twice over the value, as words have no room of their own.
            let count =
                value.split(|byte| between.contains(byte)).filter(|word| counts_empty || !word.is_empty()).count();
            count.checked_sub(nth + 1).and_then(|at| words.nth(at))
        }
    }
    .unwrap_or(0..0)
}

fn replace(out: &mut Vec<u8>, at: usize, (old, new): (&[u8], &[u8]), most: usize) -> Result<(), TooLong> {
    let (mut count, mut from) = (0, at);
    while let Some(found) = find(&out[from..], old) {
        (count, from) = (count + 1, from + found + old.len());
    }
    if count == 0 {
        return Ok(());
    }
    let before = out.len() - at;
    let after = before - count * old.len() + count * new.len();
    if after > most.max(before) {
        return Err(TooLong);
    }
    // Behind the old value, which then gives way.
    out.reserve(after);
    let (end, mut from) = (out.len(), at);
    while let Some(found) = find(&out[from..end], old) {
        out.extend_from_within(from..from + found);
        out.extend_from_slice(new);
        from += found + old.len();
    }
    out.extend_from_within(from..end);
    out.drain(at..end);
    Ok(())
}

fn decode(out: &mut Vec<u8>, at: usize) {
    let Some(first) = out[at..].iter().position(|byte| *byte == b'%') else { return };
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (mut from, mut to) = (at + first, at + first);
    while from < out.len() {
        let escape = if out[from] == b'%' { digit(out.get(from + 1)).zip(digit(out.get(from + 2))) } else { None };
        (out[to], from) = match escape {
            Some((high, low)) => ((high << 4 | low) as u8, from + 3),
            None => (out[from], from + 1),
        };
        to += 1;
    }
    out.truncate(to);
}

/// Escapes the bytes that `keeps` does not keep. It also gets the byte before, which may be of the text before the value.
fn encode(out: &mut Vec<u8>, at: usize, most: usize, keeps: impl Fn(u8, Option<u8>) -> bool) -> Result<(), TooLong> {
    let kept = |out: &[u8], from: usize| keeps(out[from], from.checked_sub(1).map(|before| out[before]));
    let escaped = (at..out.len()).filter(|from| !kept(out, *from)).count();
    if escaped == 0 {
        return Ok(());
    }
    let before = out.len();
    if before - at + 2 * escaped > most {
        return Err(TooLong);
    }
    out.resize(before + 2 * escaped, 0);
    // From the end, so that no byte is overwritten before it is read.
    let mut to = out.len();
    for from in (at..before).rev() {
        let byte = out[from];
        if kept(out, from) {
            to -= 1;
            out[to] = byte;
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            to -= 3;
            out[to..to + 3].copy_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(functions: &str, value: &[u8]) -> Result<Vec<u8>, TooLong> {
        let functions = read(functions).unwrap_or_else(|misfit| panic!("{functions}: {misfit:?}"));
        let mut out = [b"before ", value].concat();
        functions.iter().try_for_each(|one| one.apply(&mut out, 7, 100))?;
        assert_eq!(&out[..7], b"before ", "the text before the value stays");
        Ok(out.split_off(7))
    }

    #[test]
    fn functions_change_a_value_in_their_order() {
        for (functions, value, changed) in [
            ("lower", "A-b", "a-b"),
            ("upper", "A-b\u{e4}", "A-B\u{e4}"),
            ("trim", " \ta b\t", "a b"),
            ("trim", " \t", ""),
            ("before(,)", "10.0.0.1, 10.0.0.2", "10.0.0.1"),
            ("before(,)", "10.0.0.1", "10.0.0.1"),
            ("after(:)", "a:b:c", "b:c"),
            ("after(:)", "a", ""),
            ("after('; ')", "a; b", "b"),
            ("word(1,/)", "/a/b/", "a"),
            ("word(-1,/)", "/a/b/", "b"),
            ("word(2,/)", "/a//b", "b"),
            ("word(3,/)", "/a//b", ""),
            ("word(-3,/)", "/a//b", ""),
            ("word(2,',;')", "a,b;c", "b"),
            ("word(1, ' ')", "a b", "a"),
            ("word(2,,)", "a,b", "b"),
            ("field(1,/)", "/a", ""),
            ("field(3,:)", "a::b", "b"),
            ("field(-2,:)", "a::b", ""),
            ("field(4,:)", "a::b", ""),
            ("replace(_,-)", "a_b__c", "a-b--c"),
            ("replace(_,'')", "a_b__c_", "abc"),
            ("replace('a','(a)')", "banana", "b(a)n(a)n(a)"),
            ("replace('''','\"')", "it's", "it\"s"),
            ("replace(x,y)", "a", "a"),
            ("url_decode", "%41+%2f%zz%4", "A+/%zz%4"),
            ("url_encode", "/a b?\u{e4}%", "%2Fa%20b%3F%C3%A4%25"),
            ("url_decode|url_encode", "%7Ea%2fb", "~a%2Fb"),
            ("default(none)", "", "none"),
            ("default(none)", "some", "some"),
            ("before(,) | default('a, (b)') | upper", ",x", "A, (B)"),
        ] {
            assert_eq!(applied(functions, value.as_bytes()).as_deref(), Ok(changed.as_bytes()), "{functions} {value}");
        }
    }

    #[test]
    fn a_value_that_was_decoded_stays_within_its_part_of_a_url() {
        for (value, path, query) in [
            ("a%2fb", "a/b", "a%2Fb"),
            ("%3f%23%5c%25", "%3F%23%5C%25", "%3F%23%5C%25"),
            ("a%2f%2fb", "a/%2Fb", "a%2F%2Fb"),
            ("%0d%0a%00;", "%0D%0A%00%3B", "%0D%0A%00%3B"),
            ("a%26b=c", "a&b=c", "a%26b%3Dc"),
        ] {
            for (is_query, wanted) in [(false, path), (true, query)] {
                let mut functions = read("url_decode").expect("a function");
                protected(&mut functions, is_query);
                let mut out = value.as_bytes().to_vec();
                functions.iter().for_each(|one| one.apply(&mut out, 0, 100).expect("short"));
                assert_eq!(String::from_utf8_lossy(&out), wanted, "{value} {is_query}");
            }
        }
        let mut last = read("url_decode|url_encode").expect("functions");
        protected(&mut last, false);
        assert_eq!(last, [Function::UrlDecode, Function::UrlEncode]);
        let mut out = b"a&b%2f=c+d".to_vec();
        Function::QueryEncode.apply(&mut out, 0, 100).expect("short");
        assert_eq!(out, b"a%26b%2f%3Dc%2Bd");
    }

    /// Values of all lengths up to some bytes, of bytes that functions look at.
    #[test]
    fn every_function_has_a_bounded_result_for_every_value() {
        const BYTES: &[u8] = b"%2/,aA";
        let functions: Vec<Function> = FUNCTIONS.iter().map(|row| one(row.example).expect(row.example).0).collect();
        for number in 0..BYTES.len().pow(6) {
            let (mut value, mut left) = (Vec::new(), number);
            while left > 0 {
                value.push(BYTES[left % BYTES.len()]);
                left /= BYTES.len();
            }
            for function in functions.iter().chain(&[Function::PathEncode, Function::QueryEncode]) {
                let mut out = [b"x", &value[..]].concat();
                match function.apply(&mut out, 1, 8) {
                    Ok(()) => assert!(out.len() <= 1 + value.len().max(8) && out[0] == b'x', "{function:?} {value:?}"),
                    Err(TooLong) => {
                        let encodes = [Function::UrlEncode, Function::PathEncode, Function::QueryEncode];
                        assert!(encodes.contains(function), "{function:?} {value:?}");
                    }
                }
            }
        }
        assert_eq!(applied("url_encode", &[b' '; 34]), Err(TooLong));
        assert_eq!(applied("replace(a,aaa)", &[b'a'; 34]), Err(TooLong));
        assert_eq!(applied("replace(a,a)|before(b)", &[b'a'; 200]).map(|value| value.len()), Ok(200));
    }

    #[test]
    fn what_is_wrong_with_a_function_has_a_fix() {
        for (text, help) in [
            ("lowr", "lower"),
            ("url_dec", "write url_decode"),
            ("", "allowed"),
            ("before", "{header.X-Id|before(,)}"),
            ("before()", "{header.X-Id|before(,)}"),
            ("before(", "{header.X-Id|before(,)}"),
            ("before('a)", "{header.X-Id|before(,)}"),
            ("before('a'b)", "{header.X-Id|before(,)}"),
            ("word(a,b)", "word(2,/)"),
            ("word(0,b)", "word(2,/)"),
            ("word(2)", "word(2,/)"),
            ("word(999,x)", "word(2,/)"),
            ("replace(a)", "replace(_,-)"),
            ("lower(x)", "{header.X-Id|lower}"),
            ("lower upper", "between functions"),
            ("lower||upper", "allowed"),
            ("lower|lower|lower|lower|lower|lower|lower|lower|lower", "at most 8"),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }

    #[test]
    fn the_guide_has_every_function() {
        let guide = include_str!("../../../../../docs/guide/headers.md");
        for row in FUNCTIONS {
            assert!(guide.contains(&format!("`{}`", row.example)), "{}", row.example);
        }
    }
}
