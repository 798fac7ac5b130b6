//! The output as text: comments, tables of the process, listeners, routes, pools.

use super::value::{Table, Value, write_entries, write_entry};
use super::{Action, Endpoint, Listener, Pool, Route, Target};
use std::fmt::Write;

impl Target {
    /// The whole file, but for its first line.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for (name, value) in &self.root.entries {
            match value {
                Value::Table(table) if name == "defaults" => {
                    for (inner, value) in &table.entries {
                        section(&format!("[defaults.{inner}]"), value, &mut out);
                    }
                }
                Value::Table(_) => section(&format!("[{name}]"), value, &mut out),
                // All keys of the top level that a translation sets are tables.
                _ => {}
            }
        }
        self.listeners.iter().for_each(|listener| listener.write(&mut out));
        self.routes.iter().for_each(|route| route.write(&mut out));
        self.pools.iter().for_each(|pool| pool.write(&mut out));
        out
    }
}

fn section(head: &str, value: &Value, out: &mut String) {
    let Value::Table(table) = value else { return };
    let _ = writeln!(out, "\n{head}");
    write_entries(table, out);
}

fn comments(lines: &[String], out: &mut String) {
    out.push('\n');
    for line in lines {
        // A line of the input must not end the comment.
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(out, "# {line}");
    }
}

impl Listener {
    fn write(&self, out: &mut String) {
        comments(&self.comments, out);
        let _ = writeln!(out, "[listener.{}]", key(&self.name));
        write_entry("bind", &self.bind.clone().into(), out);
        match (self.is_tcp, self.is_udp) {
            (_, true) => out.push_str("mode = \"udp\"\n"),
            (true, _) => out.push_str("mode = \"tcp\"\n"),
            _ => {}
        }
        if let Some(pool) = &self.pool {
            write_entry("pool", &pool.as_str().into(), out);
        }
        write_entries(&self.set, out);
    }
}

impl Route {
    fn write(&self, out: &mut String) {
        comments(&self.comments, out);
        out.push_str("[[route]]\n");
        write_entry("name", &self.name.as_str().into(), out);
        let table = self.matching.table();
        if !table.is_empty() {
            write_entry("match", &table.into(), out);
        }
        match &self.action {
            Action::Pool(pool) => write_entry("pool", &pool.as_str().into(), out),
            Action::Split(value) => write_entry("split", value, out),
            Action::Redirect(value) => write_entry("redirect", value, out),
            Action::Respond(value) => write_entry("respond", value, out),
        }
        write_entries(&self.set, out);
    }
}

impl Pool {
    fn write(&self, out: &mut String) {
        comments(&self.comments, out);
        let _ = writeln!(out, "[pool.{}]", key(&self.name));
        if !self.endpoints.is_empty() {
            let each: Vec<Value> = self.endpoints.iter().map(Endpoint::value).collect();
            write_entry("endpoints", &Value::List(each), out);
        }
        write_entries(&self.set, out);
    }
}

impl Endpoint {
    fn value(&self) -> Value {
        match self.set.is_empty() {
            true => self.addr.as_str().into(),
            false => {
                let mut table = Table::one("addr", self.addr.as_str());
                table.merge(&self.set);
                table.into()
            }
        }
    }
}

/// A name as a key: quoted if it has a dot.
fn key(name: &str) -> String {
    if name.contains('.') { format!("\"{name}\"") } else { name.to_string() }
}
