//! Load reports of endpoints: any bytes are parsed or refused, parsed values are finite and not negative, and
//! surrounding white space changes nothing.
#![no_main]

use evenkeel_wire::orca::{FIELD, FIELD_BIN, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let names = ["in_flight".to_string(), "rif".to_string()];
    for field in [FIELD, FIELD_BIN] {
        let of = |value: &[u8]| read(|name| (name == field).then_some(value), &names).expect("there is one");
        let report = of(bytes);
        assert_eq!(of(&[b" ", bytes, b"\t"].concat()), report);
        let Ok((_, report)) = report else { continue };
        let all = [report.in_flight, report.latency_ns, report.stamp, report.cpu, report.memory, report.application];
        assert!(all.into_iter().flatten().all(|x| x.is_finite() && x >= 0.0), "{report:?}");
    }
});
