//! Axes: the position of a value, and the labels of ticks.

use crate::number::{clock, digits, seconds};

/// Quantity of an axis, which decides its scale and labels.
pub enum Axis {
    /// Percentiles on a scale of nines, up to this many: 1 is 90 %, 2 is 99 %.
    Nines(f64),
    /// Durations, labelled with units.
    Seconds {
        /// True if the axis is logarithmic.
        log: bool,
    },
    /// Shares of a whole, 0 to 1.
    Share,
    /// Times of day: seconds since 1970, UTC.
    Clock,
    /// Plain numbers with a name.
    Plain {
        name: String,
        /// True if the axis is logarithmic.
        log: bool,
    },
}

impl Axis {
    pub(crate) fn name(&self) -> &str {
        match self {
            Axis::Nines(_) => "percentile",
            Axis::Seconds { .. } => "latency",
            Axis::Share => "share",
            Axis::Clock => "UTC",
            Axis::Plain { name, .. } => name,
        }
    }

    fn log(&self) -> bool {
        matches!(self, Axis::Seconds { log: true } | Axis::Plain { log: true, .. })
    }

    pub(crate) fn label(&self, x: f64) -> String {
        match self {
            Axis::Nines(_) => match x as u32 {
                0 => "0 %".to_string(),
                1 => "90 %".to_string(),
                2 => "99 %".to_string(),
                nines => format!("99.{} %", "9".repeat(nines as usize - 2)),
            },
            Axis::Seconds { .. } => {
                let text = seconds(x);
                text.replace(".00", "").replace(".0 ", " ").replace(" us", " \u{b5}s")
            }
            Axis::Share => format!("{:.0} %", x * 100.0),
            Axis::Clock => clock(x),
            Axis::Plain { name, .. } => {
                let text = digits(x);
                let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
                // A unit is short enough for each label; a name is beside the axis.
                let unit = if name.starts_with('/') { name } else { "" };
                format!("{text}{unit}")
            }
        }
    }
}

/// Most labels that an axis gets.
const TICKS_MAX: usize = 24;

const DAY: f64 = 86_400.0;

/// Most steps of a logarithmic axis: more than lie between the smallest and the largest number.
const STEPS_MAX: usize = 2000;

/// Seconds between two labels of a clock.
const CLOCK_STEPS: [f64; 8] = [10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 14_400.0];

/// Map from values to positions in the picture.
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
    whole: bool,
    clock: bool,
}

impl Scale {
    pub(crate) fn of(axis: &Axis, values: &[f64], from: f64, to: f64) -> Scale {
        let positive = |x: &&f64| **x > 0.0;
        // `max` and `min` ignore NaN, which stands for an unknown value.
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().filter(positive).copied().fold(f64::INFINITY, f64::min);
        let (low, high) = match axis {
            Axis::Nines(nines) => (0.0, *nines),
            // The range is at least a second: a clock that began in 1970 would have a label for every day.
            Axis::Clock => (low.min(high - 1.0), high),
            Axis::Share => (0.0, (high * 1.05).clamp(0.01, 1.0)),
            _ if axis.log() && low.is_finite() => {
                // Whole steps of 1, 2 and 5.
                (step_below(low), step_above(high.max(low * 1.01)))
            }
            _ => (0.0, if high > 0.0 { high * 1.05 } else { 1.0 }),
        };
        Scale {
            low,
            high,
            from,
            to,
            log: axis.log() && low > 0.0,
            whole: matches!(axis, Axis::Nines(_)),
            clock: matches!(axis, Axis::Clock),
        }
    }

    /// A linear scale with a margin of a twentieth at its ends, but for an end at 0, which every scale has.
    pub(crate) fn around(values: &[f64], from: f64, to: f64) -> Scale {
        let (low, high) = values.iter().fold((0.0, 0.0), |(low, high): (f64, f64), x| (low.min(*x), high.max(*x)));
        let margin = if high > low { (high - low) / 20.0 } else { 1.0 };
        let low = if low < 0.0 { low - margin } else { 0.0 };
        Scale { low, high: high + margin, from, to, log: false, whole: false, clock: false }
    }

    pub(crate) fn place(&self, x: f64) -> f64 {
        let part = match self.log {
            true => (x.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (x - self.low) / (self.high - self.low),
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// True if equal lengths are equal differences.
    pub(crate) fn is_linear(&self) -> bool {
        !self.log
    }

    /// True if a value is between the ends.
    pub(crate) fn has(&self, x: f64) -> bool {
        (self.low..=self.high).contains(&x)
    }

    /// Returns the values to label: about `many`, and at most [`TICKS_MAX`] whatever the range is.
    pub(crate) fn ticks(&self, many: u32) -> Vec<f64> {
        if self.log {
            let all: Vec<f64> = steps(self.low, self.high);
            if all.len() <= if many < 7 { 6 } else { 12 } {
                return all;
            }
            // Many decades: only their starts, or some of those.
            let decades: Vec<f64> = all.into_iter().filter(|x| is_decade(*x)).collect();
            let every = decades.len().div_ceil(TICKS_MAX).max(1);
            return decades.into_iter().step_by(every).collect();
        }
        if self.whole {
            return (0..=self.high as u32).map(f64::from).take(TICKS_MAX).collect();
        }
        let range = self.high - self.low;
        let step = if self.clock {
            let step = CLOCK_STEPS.into_iter().find(|step| range / step <= 6.0);
            // Whole days, as many as it takes: a clock may jump by decades.
            step.unwrap_or_else(|| step_above(range / 6.0 / DAY).ceil() * DAY)
        } else {
            step_above(range / f64::from(many))
        };
        let first = (self.low / step).ceil();
        let all = (0..).map(|i| (first + f64::from(i)) * step).take(TICKS_MAX);
        all.take_while(|x| *x <= self.high + step * 1e-4).collect()
    }
}

/// Returns the steps 1, 2, 5, 10, 20 and so on within a range.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let mut at = step_below(low);
    let mut all = Vec::new();
    while at <= high * 1.0001 && all.len() < STEPS_MAX {
        all.push(at);
        at = step_above(at * 1.01);
    }
    all
}

fn is_decade(x: f64) -> bool {
    let exponent = x.log10();
    (exponent - exponent.round()).abs() < 1e-6
}

fn step_above(x: f64) -> f64 {
    let decade = 10f64.powf(x.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * decade).find(|s| *s >= x * 0.9999).unwrap_or(10.0 * decade)
}

fn step_below(x: f64) -> f64 {
    let decade = 10f64.powf((x * 1.0001).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|m| m * decade).find(|s| *s <= x * 1.0001).unwrap_or(decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_axis_has_many_labels() {
        let plain = |log| Axis::Plain { name: String::new(), log };
        let seconds = |log| Axis::Seconds { log };
        let axes =
            [plain(false), plain(true), seconds(false), seconds(true), Axis::Clock, Axis::Share, Axis::Nines(1e9)];
        let ends = [0.0, f64::MIN_POSITIVE / 2.0, 1e-300, 1e-9, 1.0, 1e9, 1e300, f64::MAX, f64::INFINITY, f64::NAN];
        for (a, axis) in axes.iter().enumerate() {
            for low in ends {
                for high in ends {
                    let ticks = Scale::of(axis, &[low, high], 0.0, 100.0).ticks(7);
                    assert!(ticks.len() <= TICKS_MAX, "axis {a} from {low} to {high}: {}", ticks.len());
                }
            }
        }
    }

    #[test]
    fn a_clock_has_few_labels_whatever_it_shows() {
        let now = 1_700_000_000.0;
        for values in [&[now][..], &[], &[now, now + 899.0], &[now, now + 7.0], &[now - 86_400.0, now]] {
            let ticks = Scale::of(&Axis::Clock, values, 0.0, 100.0).ticks(7);
            assert!(ticks.len() <= 7, "{values:?}: {ticks:?}");
            assert!(ticks.iter().all(|tick| tick % 10.0 == 0.0), "{ticks:?}");
        }
        for years in [0.01, 0.1, 1.0, 20.0, 60.0, 1e6] {
            let ticks = Scale::of(&Axis::Clock, &[now, now + years * 365.0 * DAY], 0.0, 100.0).ticks(7);
            assert!((1..=7).contains(&ticks.len()), "{years}: {ticks:?}");
            assert!(ticks.iter().all(|tick| tick % 3600.0 == 0.0), "{ticks:?}");
        }
        let scale = Scale::of(&Axis::Clock, &[now, now + 100.0], 0.0, 100.0);
        assert_eq!((scale.place(now), scale.place(now + 100.0)), (0.0, 100.0));
    }
}
