//! What is the trace of one request, and which spans does it have?

use evenkeel_balance::rng::mix;
use evenkeel_wire::trace_context::{self, Formats, Sampled, Span};

/// The trace of one request, and its spans.
pub struct Trace {
    /// The trace, and how endpoints are told of it; the span is that of the try.
    told: Span,
    parent: Option<u64>,
    sampled: Sampled,
    /// Of fields that are written; none if those of the client go on as they came.
    formats: Formats,
    /// What spans are made of.
    seed: u64,
}

impl Trace {
    /// One that endpoints are told of in these formats, below `parent` if there is one. `seed`: something random.
    pub fn new(told: Span, parent: Option<u64>, sampled: Sampled, formats: Formats, seed: u64) -> Trace {
        Trace { told, parent, sampled, formats, seed }
    }

    /// One that is not recorded, and of which the client says all that there is to say.
    pub fn left_alone(told: Span) -> Trace {
        Trace { told, parent: None, sampled: Sampled::No, formats: Formats::default(), seed: 0 }
    }

    /// The trace.
    pub fn id(&self) -> u128 {
        self.told.trace
    }

    /// The same, in digits.
    pub fn id_text(&self) -> String {
        format!("{:032x}", self.told.trace)
    }

    /// The span of the client, if it says one.
    pub fn parent(&self) -> Option<u64> {
        self.parent
    }

    /// Whether spans are kept.
    pub fn is_recorded(&self) -> bool {
        matches!(self.sampled, Sampled::Yes | Sampled::Debug)
    }

    /// The span of try number `number`; 0: that of the request.
    pub fn span(&self, number: u32) -> u64 {
        // Each number gives another one; 0 would be none.
        mix(self.seed ^ u64::from(number)).max(1)
    }

    /// Appends the fields for the endpoint of try number `number`, each with the end of its line.
    pub fn write(&self, number: u32, lines: &mut Vec<u8>) {
        if self.formats != Formats::default() {
            let told = Span { span: self.span(number), ..self.told };
            trace_context::write(self.formats, told, self.sampled, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::trace_context::Format;

    #[test]
    fn each_try_is_told_of_by_its_own_span_and_one_left_alone_by_none() {
        let formats = Formats::default().with(Format::W3c);
        let told = Span { trace: 7, span: 3, is_random: true };
        let trace = Trace::new(told, Some(3), Sampled::Yes, formats, 9);
        let lines = |trace: &Trace, number| {
            let mut lines = Vec::new();
            trace.write(number, &mut lines);
            String::from_utf8(lines).expect("ASCII")
        };
        for number in [1, 2, 1] {
            assert!(lines(&trace, number).contains(&format!("{:016x}", trace.span(number))));
        }
        let spans: std::collections::HashSet<u64> = (0..1000).map(|number| trace.span(number)).collect();
        assert_eq!((spans.len(), trace.is_recorded(), trace.parent()), (1000, true, Some(3)));
        let alone = Trace::left_alone(told);
        assert_eq!(
            (lines(&alone, 2), alone.is_recorded(), alone.id_text()),
            (String::new(), false, format!("{:032x}", 7))
        );
    }
}
