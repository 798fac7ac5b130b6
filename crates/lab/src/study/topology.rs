//! Diagram of the machines of an experiment.

use evenkeel_draw::flow::{Band, Column, Node, flow};

/// Machine with its name and the text below it.
pub fn node(name: impl Into<String>, text: impl Into<String>) -> Node {
    Node { name: name.into(), text: text.into(), link: None, tone: "" }
}

/// Column of machines of one role.
pub fn column(title: &str, nodes: impl IntoIterator<Item = Node>) -> Column {
    Column { title: title.into(), nodes: nodes.into_iter().collect() }
}

/// Band of requests without failures, from a machine of one column to one of the next, by index.
pub fn band(from: usize, to: usize, rate: f64) -> Band {
    Band { from, to, rate, errors: 0.0 }
}

/// Draws machines that each send equally to all of the next column.
pub fn even(columns: &[Column]) -> String {
    flow("The machines", columns, &evenly(columns))
}

/// Bands of such machines, between each pair of columns.
pub fn evenly(columns: &[Column]) -> Vec<Vec<Band>> {
    let between = |pair: &[Column]| {
        let (many, next) = (pair[0].nodes.len(), pair[1].nodes.len());
        let each = 1.0 / (many * next) as f64;
        (0..many).flat_map(|from| (0..next).map(move |to| band(from, to, each))).collect()
    };
    columns.windows(2).map(between).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_sends_alike_to_all_of_the_next_column() {
        let columns = [column("a", [node("x", "")]), column("b", [node("y", ""), node("z", "")])];
        let bands = [vec![band(0, 0, 0.5), band(0, 1, 0.5)]];
        assert_eq!(even(&columns), flow("The machines", &columns, &bands));
    }
}
