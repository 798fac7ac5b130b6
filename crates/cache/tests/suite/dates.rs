//! Dates in the fields of cases, written independently of the rules under test.

const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Replaces the dates of a value, relative to `now` in milliseconds, and the path of the request.
pub fn expand(value: &str, now: u64, path: &str) -> String {
    let value = value.replace("{self}", path);
    let Some((before, rest)) = value.split_once('{') else { return value };
    let Some((inside, after)) = rest.split_once('}') else { return value };
    let (offset, is_old) = match inside.strip_suffix(" rfc850") {
        Some(offset) => (offset, true),
        None => (inside, false),
    };
    let Ok(offset) = offset.trim_start_matches('+').parse::<i64>() else { return value };
    let seconds = (now / 1000).saturating_add_signed(offset);
    format!("{before}{}{after}", date(seconds, is_old))
}

fn date(seconds: u64, is_old: bool) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let weekday = DAYS[(days % 7) as usize];
    let (mut year, mut day) = (1970, days);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = |year: u64| if is_leap(year) { 366 } else { 365 };
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, length(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (month, day) = (MONTHS[month], day + 1);
    let time = format!("{:02}:{:02}:{:02} GMT", rest / 3600, rest / 60 % 60, rest % 60);
    if is_old {
        format!("{weekday}, {day:02}-{month}-{:02} {time}", year % 100)
    } else {
        format!("{}, {day:02} {month} {year} {time}", &weekday[..3])
    }
}

#[test]
fn dates_are_those_of_the_rfc() {
    let at = 784_111_777_500;
    assert_eq!(expand("{0}", at, ""), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(expand("{-1 rfc850}", at, ""), "Sunday, 06-Nov-94 08:49:36 GMT");
    assert_eq!(expand("a {+86400} b", at, ""), "a Mon, 07 Nov 1994 08:49:37 GMT b");
    assert_eq!(expand("{self}/b{", at, "/a"), "/a/b{");
    assert_eq!(expand("{0}", 951_782_400_000, ""), "Tue, 29 Feb 2000 00:00:00 GMT");
}
