//! Plots of a page: medians with intervals on one axis, with a sentence that summarises them; and curves.

use evenkeel_draw::intervals::{Row, intervals};
use evenkeel_draw::number::digits;

pub struct Plot {
    /// Quantity that is compared.
    pub title: String,
    pub svg: String,
    /// Sentence with the lowest and highest median; empty for curves, and for a single row.
    pub reading: String,
}

impl Plot {
    /// Draws medians with their intervals on one axis. `unit`: name of the axis, and after a semicolon the meaning of a
    /// dashed mark.
    pub fn of_rows(title: impl Into<String>, unit: &str, rows: &[Row]) -> Plot {
        let title = title.into();
        Plot { svg: intervals(rows, &title, unit), reading: reading(&title, unit, rows), title }
    }

    /// Wraps a chart that is already drawn.
    pub fn drawn(title: impl Into<String>, svg: String) -> Plot {
        Plot { title: title.into(), svg, reading: String::new() }
    }
}

fn reading(title: &str, unit: &str, rows: &[Row]) -> String {
    let measured = || rows.iter().filter(|row| row.median.is_finite() && (row.interval.is_some() || row.median != 0.0));
    let lowest = measured().min_by(|a, b| a.median.total_cmp(&b.median));
    let highest = measured().max_by(|a, b| a.median.total_cmp(&b.median));
    let unit = unit.split(';').next().unwrap_or_default();
    match (lowest, highest) {
        (Some(low), Some(high)) if low.median < high.median => format!(
            "{title}: from {} {unit} with {} to {} with {}.",
            digits(low.median),
            low.name,
            digits(high.median),
            high.name
        ),
        (Some(low), Some(_)) if measured().count() > 1 => format!("{title}: {} {unit} with all.", digits(low.median)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, median: f64) -> Row {
        Row { name: name.into(), interval: Some((median, median)), median, expected: None, colour: 0 }
    }

    #[test]
    fn a_plot_is_read_by_its_ends() {
        let plot =
            Plot::of_rows("p99", "milliseconds; dashed: predicted", &[row("a", 12.0), row("b", 3.5), row("c", 400.0)]);
        assert_eq!(plot.reading, "p99: from 3.50 milliseconds with b to 400 with c.");
        let equal = Plot::of_rows("failed", "requests", &[row("a", 0.0), row("b", 0.0)]);
        assert_eq!(equal.reading, "failed: 0 requests with all.");
        let missing = Row { interval: None, ..row("b", 0.0) };
        assert_eq!(Plot::of_rows("failed", "requests", &[row("a", 1.0), missing]).reading, "");
    }
}
