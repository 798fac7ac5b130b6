//! Golden vectors of reports, and properties that all forms share.

use super::*;
use proptest::prelude::*;

/// From Envoy's tests: cpu 0.5, rps 100, eps 2, and a metric "rif" of 4.
const ENVOY: &str = "CQAAAAAAAOA/MQAAAAAAAFlAOQAAAAAAAABAQg4KA3JpZhEAAAAAAAAQQA";

fn names() -> Vec<String> {
    vec!["in_flight".to_string(), "rif".to_string()]
}

fn of(fields: &[(&str, &str)]) -> Option<Result<(Form, Report), Malformed>> {
    let value = |name: &str| fields.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_bytes());
    read(value, &names())
}

#[track_caller]
fn report(value: &str) -> Report {
    of(&[(FIELD, value)]).expect("there is one").expect(value).1
}

#[test]
fn the_golden_vector_is_read_with_its_padding_and_without() {
    let want = Report { in_flight: Some(4.0), cpu: Some(0.5), ..Report::default() };
    for value in [ENVOY.to_string(), format!("{ENVOY}=="), format!(" {ENVOY}\t")] {
        assert_eq!(of(&[(FIELD_BIN, &value)]), Some(Ok((Form::Bin, want))), "{value}");
        assert_eq!(of(&[(FIELD, &format!("BIN {value}"))]), Some(Ok((Form::Bin, want))), "{value}");
    }
    assert_eq!(want.utilization(), Some(0.5));
}

#[test]
fn the_published_examples_are_read() {
    let text = "TEXT cpu_utilization=0.3, mem_utilization=0.8, application_utilization=0.4, rps_fractional=10.0, eps=1, \
                named_metrics.kv=0.4, utilization.gpu=0.5";
    let want = Report { cpu: Some(0.3), memory: Some(0.8), application: Some(0.4), ..Report::default() };
    assert_eq!(report(text), want);
    assert_eq!(report(&text.replace('=', ":")), want);
    assert_eq!(want.utilization(), Some(0.4));
    let json = r#"JSON {"cpu_utilization":0.3,"named_metrics":{"kv":0.4}}"#;
    assert_eq!(report(json), Report { cpu: Some(0.3), ..Report::default() });
    let camel = r#"JSON {"cpuUtilization":"0.3","namedMetrics":{"rif":"4"},"eps":null}"#;
    assert_eq!(report(camel), Report { cpu: Some(0.3), in_flight: Some(4.0), ..Report::default() });
}

#[test]
fn the_binary_field_goes_first_and_is_not_replaced_when_it_is_malformed() {
    let text = "TEXT named_metrics.in_flight=9";
    assert_eq!(of(&[]), None);
    let both = of(&[(FIELD, text), (FIELD_BIN, ENVOY)]).expect("there is one").expect("it is good");
    assert_eq!((both.0, both.1.in_flight), (Form::Bin, Some(4.0)));
    assert_eq!(of(&[(FIELD, text), (FIELD_BIN, "!")]), Some(Err(Malformed::Base64)));
}

#[test]
fn the_first_name_that_is_looked_for_counts_in_whatever_order_they_come() {
    for text in
        ["TEXT named_metrics.rif=1,named_metrics.in_flight=2", "TEXT named_metrics.in_flight=2,named_metrics.rif=1"]
    {
        assert_eq!(report(text).in_flight, Some(2.0));
    }
    let all =
        report("TEXT named_metrics.in_flight=3,named_metrics.latency_ns=1500000,named_metrics.stamp=1760000000000001");
    assert_eq!((all.in_flight, all.latency_ns, all.stamp), (Some(3.0), Some(1.5e6), Some(1_760_000_000_000_001.0)));
}

#[test]
fn each_fault_has_its_name() {
    let long = format!("TEXT {}", "x".repeat(LEN_MAX + 1));
    let many: Vec<_> = (0..65).map(|i| format!("named_metrics.{i}=1")).collect();
    let many = format!("TEXT {}", many.join(","));
    for (value, why) in [
        ("", Malformed::Form),
        ("TEXT", Malformed::Form),
        ("text eps=1", Malformed::Form),
        ("XML <eps/>", Malformed::Form),
        (&long, Malformed::TooLong),
        (&many, Malformed::TooLong),
        ("TEXT eps", Malformed::Text),
        ("TEXT =1", Malformed::Text),
        ("TEXT eps=", Malformed::Text),
        ("TEXT eps=1,", Malformed::Text),
        ("TEXT eps=1=2", Malformed::Text),
        ("TEXT eps=1,eps=1", Malformed::Twice),
        ("TEXT named_metrics.=1", Malformed::Name),
        ("TEXT load=1", Malformed::Name),
        ("TEXT eps=-1", Malformed::Value),
        ("TEXT eps=nan", Malformed::Value),
        ("TEXT eps=inf", Malformed::Value),
        ("TEXT mem_utilization=1.1", Malformed::Value),
        ("TEXT utilization.gpu=2", Malformed::Value),
        ("JSON []", Malformed::Json),
        ("JSON {", Malformed::Json),
        ("JSON {\"eps\":true}", Malformed::Json),
        ("JSON {\"named_metrics\":1}", Malformed::Json),
        ("JSON {\"load\":1}", Malformed::Name),
        ("JSON {\"eps\":\"NaN\"}", Malformed::Value),
        ("JSON {\"eps\":-1}", Malformed::Value),
        ("BIN CQ=", Malformed::Base64),
        ("BIN CQAA=", Malformed::Base64),
        ("BIN C", Malformed::Base64),
        ("BIN C*==", Malformed::Base64),
        // Field 1 as a varint, a field 0, a length beyond the end, a group, a varint that does not end.
        ("BIN CAE=", Malformed::Protobuf),
        ("BIN AAE=", Malformed::Protobuf),
        ("BIN Qg8K", Malformed::Protobuf),
        ("BIN cw==", Malformed::Protobuf),
        ("BIN //////////////8=", Malformed::Protobuf),
        // cpu = -1.
        ("BIN CQAAAAAAAPC/", Malformed::Value),
    ] {
        assert_eq!(of(&[(FIELD, value)]), Some(Err(why)), "{value:.60}");
    }
    assert_eq!(of(&[(FIELD, "TEXT cpu_utilization=2.5")]).map(|r| r.is_ok()), Some(true), "two and a half cores");
}

#[test]
fn what_a_later_version_adds_is_passed_over_in_protobuf() {
    // Fields 10 as a varint, 11 as 32 bits and 12 as bytes, then cpu = 0.5.
    let value = "BIN UAFdAAAAAGICaGkJAAAAAAAA4D8=";
    assert_eq!(report(value), Report { cpu: Some(0.5), ..Report::default() });
}

/// Returns a message with these named metrics.
fn message(metrics: &[(String, f64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in metrics {
        let entry = [&[0x0a, name.len() as u8], name.as_bytes(), &[0x11], &value.to_le_bytes()[..]].concat();
        out.extend([0x42, entry.len() as u8]);
        out.extend(entry);
    }
    out
}

fn encode(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |chunk: &[u8], i: usize| {
        let all = chunk.iter().chain(&[0, 0]).take(3).fold(0u32, |bits, b| bits << 8 | u32::from(*b));
        alphabet[(all >> (18 - 6 * i)) as usize & 63] as char
    };
    bytes.chunks(3).flat_map(|chunk| (0..=chunk.len()).map(move |i| digit(chunk, i))).collect()
}

proptest! {
    #[test]
    fn every_form_says_the_same(in_flight in 0u32..1 << 24, latency in 0u64..1 << 50, stamp in 0u64..1 << 53, extra in "[a-z]{0,9}") {
        let mut metrics = vec![
            ("in_flight".to_string(), f64::from(in_flight)),
            (LATENCY.to_string(), latency as f64),
            (STAMP.to_string(), stamp as f64),
        ];
        metrics.push((format!("x{extra}"), 0.5));
        let text: Vec<_> = metrics.iter().map(|(name, value)| format!("named_metrics.{name}={value:?}")).collect();
        let json = serde_json::json!({ "named_metrics": metrics.iter().map(|(name, value)| (name.clone(), serde_json::json!(value))).collect::<serde_json::Map<_, _>>() });
        let bin = encode(&message(&metrics));
        let want = Report {
            in_flight: Some(f64::from(in_flight)),
            latency_ns: Some(latency as f64),
            stamp: Some(stamp as f64),
            ..Report::default()
        };
        prop_assert_eq!(report(&format!("TEXT {}", text.join(", "))), want);
        prop_assert_eq!(report(&format!("JSON {json}")), want);
        prop_assert_eq!(report(&format!("BIN {bin}")), want);
    }

    #[test]
    fn nothing_that_is_sent_panics_and_what_is_read_is_sane(value in prop::collection::vec(any::<u8>(), 0..200), form in 0usize..4) {
        let prefix = ["", "BIN ", "TEXT ", "JSON "][form];
        let value = [prefix.as_bytes(), &value].concat();
        for name in [FIELD, FIELD_BIN] {
            let read = read(|n| (n == name).then_some(&value), &names());
            if let Some(Ok((_, report))) = read {
                let all = [report.in_flight, report.latency_ns, report.stamp, report.cpu, report.memory, report.application];
                prop_assert!(all.iter().flatten().all(|x| x.is_finite() && *x >= 0.0));
            }
        }
    }

    #[test]
    fn base64_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut room = [0; LEN_MAX];
        prop_assert_eq!(decode(encode(&bytes).as_bytes(), &mut room), Ok(&bytes[..]));
    }
}
