//! Patches of a configuration: the changed text, and its difference as `patch` reads it.

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Change to a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// Whole text of the changed file.
    pub text: String,
    /// Unified difference to the file.
    pub diff: String,
}

impl Patch {
    /// Patch of a file from its text before and after.
    pub fn of(file: &str, before: &str, after: String) -> Patch {
        let diff = unified(file, before, &after);
        Patch { text: after, diff }
    }
}

/// Unified difference with a hunk that spans all changes.
fn unified(file: &str, before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let shorter = old.len().min(new.len()) - same;
    let same_end = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(a, b)| a == b).count();
    let (from, behind) = (same.saturating_sub(CONTEXT), same_end.min(CONTEXT));
    let (old_end, new_end) = (old.len() - same_end, new.len() - same_end);
    let range = |end: usize| match end + behind - from {
        0 => format!("{from},0"),
        count => format!("{},{count}", from + 1),
    };
    let mut out = format!("--- {file}\n+++ {file}\n@@ -{} +{} @@\n", range(old_end), range(new_end));
    let mut add = |mark: char, lines: &[&str], ends_file: bool| {
        for (at, line) in lines.iter().enumerate() {
            out.push(mark);
            out.push_str(line);
            out.push('\n');
            if ends_file && at + 1 == lines.len() {
                out.push_str("\\ No newline at end of file\n");
            }
        }
    };
    let (cut_old, cut_new) = (!before.ends_with('\n'), !after.ends_with('\n'));
    let has_tail = same_end > 0;
    add(' ', &old[from..same], false);
    add('-', &old[same..old_end], cut_old && !has_tail);
    add('+', &new[same..new_end], cut_new && !has_tail);
    add(' ', &old[old_end..old_end + behind], cut_old && cut_new && behind == same_end);
    out
}

/// Returns a difference of [`Patch::of`] without the unchanged lines around the change, which may hold secrets.
pub fn bare(diff: &str) -> String {
    let mut lines = diff.split_inclusive('\n');
    let heads: String = lines.by_ref().take(2).collect();
    let start = lines.next().and_then(|header| header.strip_prefix("@@ -")?.split(',').next()?.parse::<usize>().ok());
    let is_same = |line: &&str| line.starts_with(' ');
    let (leading, rest): (Vec<&str>, Vec<&str>) = {
        let all: Vec<&str> = lines.collect();
        let count = all.iter().take_while(|line| is_same(line)).count();
        (all[..count].to_vec(), all[count..].to_vec())
    };
    let changed: Vec<&str> = rest.into_iter().take_while(|line| !is_same(line)).collect();
    let first = start.unwrap_or(1) + leading.len();
    let range = |mark: char| match changed.iter().filter(|line| line.starts_with(mark)).count() {
        // An empty range names the line before it.
        0 => format!("{},0", first.saturating_sub(1)),
        count => format!("{first},{count}"),
    };
    format!("{heads}@@ -{} +{} @@\n{}", range('-'), range('+'), changed.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_three_lines_around_it() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = before.replace("e\n", "x\ny\n");
        let diff = unified("f.toml", before, &after);
        assert_eq!(diff, "--- f.toml\n+++ f.toml\n@@ -2,7 +2,8 @@\n b\n c\n d\n-e\n+x\n+y\n f\n g\n h\n");
        assert_eq!(unified("f", "a\n", "a\nb\n"), "--- f\n+++ f\n@@ -1,1 +1,2 @@\n a\n+b\n");
    }

    #[test]
    fn a_file_without_a_last_line_end_says_so() {
        let diff = unified("f", "a", "a\nb\n");
        assert!(diff.contains(" a\n"), "{diff}");
        assert!(unified("f", "x\na", "y\na").ends_with(" a\n\\ No newline at end of file\n"));
    }

    #[test]
    fn a_bare_difference_has_the_changed_lines_alone() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let diff = |after: String| bare(&unified("f.toml", before, &after));
        assert_eq!(diff(before.replace("e\n", "x\ny\n")), "--- f.toml\n+++ f.toml\n@@ -5,1 +5,2 @@\n-e\n+x\n+y\n");
        assert_eq!(diff(before.replace("e\n", "e\nx\n")), "--- f.toml\n+++ f.toml\n@@ -5,0 +6,1 @@\n+x\n");
        assert_eq!(diff(before.replace("e\n", "")), "--- f.toml\n+++ f.toml\n@@ -5,1 +4,0 @@\n-e\n");
        assert_eq!(bare(&unified("f", "x\na", "y\na")), "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-x\n+y\n");
        assert_eq!(bare(""), "@@ -0,0 +0,0 @@\n");
    }
}
