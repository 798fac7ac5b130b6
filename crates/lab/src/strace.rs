//! System call counts of a process by strace, which slows the process: never combine them with a CPU figure.

use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of system calls by name, most frequent first.
pub type Calls = Vec<(String, u64)>;

/// Counts the syscalls of these processes while `work` runs.
///
/// # Errors
/// If strace cannot attach, or `work` fails.
pub fn count<T>(pids: &[u32], folder: &Path, work: impl FnOnce() -> Result<T>) -> Result<(Calls, T)> {
    let strace = child::find("strace")?;
    let (table, said) = (folder.join("strace.table"), folder.join("strace.said"));
    let mut command = vec![strace, "-c".into(), "-f".into(), "-o".into(), table.display().to_string()];
    for pid in pids {
        command.extend(["-p".into(), pid.to_string()]);
    }
    let tracer = Child::spawn("strace", &command, None, &said)?;
    let deadline = Instant::now() + Duration::from_secs(5);
    // strace prints this once per thread; all threads of a process are attached before any of the next.
    while fs::read_to_string(&said).unwrap_or_default().matches(" attached").count() < pids.len() {
        if Instant::now() > deadline || tracer.has_ended() {
            let said = fs::read_to_string(&said).unwrap_or_default();
            return Err(Error::Wrong(format!("strace could not attach: {}", said.trim())));
        }
        child::pause(Duration::from_millis(20))?;
    }
    let outcome = work()?;
    tracer.interrupt_and_wait()?;
    let text = fs::read_to_string(&table).or_say(|| format!("cannot read {}", table.display()))?;
    let calls = parse(&text).ok_or_else(|| Error::Wrong(format!("strace -c printed no table:\n{text}")))?;
    Ok((calls, outcome))
}

/// Rows are `% time, seconds, usecs/call, calls, [errors,] syscall`; the last row's name is `total`.
fn parse(text: &str) -> Option<Calls> {
    let mut calls = Calls::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split_ascii_whitespace().collect();
        let (Some(count), Some(&name)) = (cells.get(3).and_then(|cell| cell.parse::<u64>().ok()), cells.last()) else {
            continue; // the heading and the rules
        };
        if name == "total" {
            calls.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            return (count == calls.iter().map(|(_, count)| count).sum::<u64>()).then_some(calls);
        }
        calls.push((name.to_owned(), count));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::parse;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.006000           3      2000        12 recvfrom
 30.00    0.003000           1      3000           sendto
 10.00    0.001000         100        10           epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    0.010000           1      5010        12 total
";

    #[test]
    fn rows_with_and_without_errors_are_counted() {
        let calls = parse(TABLE).expect("a whole table");
        assert_eq!(calls, [("sendto".into(), 3000), ("recvfrom".into(), 2000), ("epoll_wait".into(), 10)]);
    }

    #[test]
    fn a_table_that_does_not_add_up_is_refused() {
        assert_eq!(parse(&TABLE.replace("5010", "5011")), None);
        assert_eq!(parse("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted\n"), None);
    }
}
