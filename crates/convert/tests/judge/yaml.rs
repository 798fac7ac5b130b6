//! The little YAML that the grammar of Traefik writes: lines of `key:` with indented lines below them, and maps, lists
//! and texts on a single line.

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    pub fn entries(&self) -> &[(String, Value)] {
        if let Value::Map(entries) = self { entries } else { &[] }
    }

    pub fn list(&self) -> &[Value] {
        if let Value::List(all) = self { all } else { &[] }
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub fn at(&self, path: &str) -> Option<&Value> {
        path.split('.')
            .try_fold(self, |value, key| value.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.at(key)?.as_text()
    }

    pub fn texts(&self, key: &str) -> impl Iterator<Item = &str> {
        self.at(key).map_or(&[][..], Value::list).iter().filter_map(Value::as_text)
    }
}

/// Reads a text.
///
/// # Errors
/// The line that is not understood.
pub fn read(text: &str) -> Result<Value, String> {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| (line.len() - line.trim_start().len(), line.trim()))
        .collect();
    let mut at = 0;
    block(&lines, &mut at, 0)
}

fn block(lines: &[(usize, &str)], at: &mut usize, indent: usize) -> Result<Value, String> {
    let mut entries = Vec::new();
    while let Some((depth, line)) = lines.get(*at).filter(|(depth, _)| *depth >= indent) {
        let (key, rest) = line.split_once(':').ok_or_else(|| line.to_string())?;
        *at += 1;
        let value = match rest.trim() {
            "" => match lines.get(*at).filter(|(inner, _)| inner > depth) {
                Some((inner, _)) => block(lines, at, *inner)?,
                None => Value::Map(Vec::new()),
            },
            rest => {
                let mut rest = rest;
                flow(&mut rest).ok_or_else(|| line.to_string())?
            }
        };
        entries.push((key.to_string(), value));
    }
    Ok(Value::Map(entries))
}

fn flow(rest: &mut &str) -> Option<Value> {
    *rest = rest.trim_start();
    if let Some(inner) = rest.strip_prefix('[') {
        *rest = inner.trim_start();
        let mut all = Vec::new();
        while !rest.starts_with(']') {
            all.push(flow(rest)?);
            *rest = rest.trim_start().trim_start_matches(',').trim_start();
        }
        *rest = &rest[1..];
        return Some(Value::List(all));
    }
    if let Some(inner) = rest.strip_prefix('{') {
        *rest = inner.trim_start();
        let mut entries = Vec::new();
        while !rest.starts_with('}') {
            let (key, after) = rest.split_once(':')?;
            *rest = after;
            entries.push((key.trim().to_string(), flow(rest)?));
            *rest = rest.trim_start().trim_start_matches(',').trim_start();
        }
        *rest = &rest[1..];
        return Some(Value::Map(entries));
    }
    if let Some(inner) = rest.strip_prefix('"') {
        let (text, after) = inner.split_once('"')?;
        *rest = after;
        return Some(Value::Text(text.replace("\\\\", "\\")));
    }
    let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
    let (text, after) = rest.split_at(end);
    *rest = after;
    (!text.trim().is_empty()).then(|| Value::Text(text.trim().to_string()))
}
