//! Trace context of requests: any bytes in any field are accepted or ignored, and what is accepted is written
//! so that it reads back.
#![no_main]

use evenkeel_wire::head::Table;
use evenkeel_wire::trace_context::{Format, Formats, Sampled, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut table = Table::default();
    for field in bytes.split(|b| *b == b'\n') {
        let (name, value) = field.split_at(field.iter().position(|b| *b == b':').unwrap_or(field.len()));
        table.push(name, value.get(1..).unwrap_or_default());
    }
    let came = read(&table.fields());
    let Some(span) = came.parent else { return };
    for format in [Format::W3c, Format::B3, Format::B3Multi] {
        let (mut lines, mut again) = (Vec::new(), Table::default());
        write(Formats::default().with(format), span, Sampled::Yes, &mut lines);
        again.push_lines(&lines);
        let again = read(&again.fields());
        assert_eq!((again.by, again.sampled), (Some(format), Sampled::Yes));
        assert_eq!(again.parent.map(|again| (again.trace, again.span)), Some((span.trace, span.span)));
    }
});
