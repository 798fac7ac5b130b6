//! What is answered to questions about picks? Where a request went or would go, and what shadows would have done: as the
//! workers say.

use evenkeel_admin::api::problem::Problem;
use evenkeel_admin::api::types;
use evenkeel_proxy::Looker;
use evenkeel_proxy::look::Described;
use serde::Serialize;
use serde_json::{Value, json};

/// Asks the workers.
pub async fn look(looker: &Looker, look: types::Look) -> Result<Value, Problem> {
    match look {
        types::Look::Explanations { pool, limit } => {
            let all = looker.explanations().await.into_iter();
            let of_pool = all.filter(|one| pool.as_ref().is_none_or(|pool| *one.pool == **pool));
            shown(&of_pool.take(limit).collect::<Vec<_>>())
        }
        types::Look::Explanation(id) => match looker.explanation(&id).await {
            Some(explained) => shown(&explained),
            None => Err(Problem::not_found(format!(
                "no explanation of request \"{id}\" is kept: telemetry.explain says of which there are"
            ))),
        },
        types::Look::Next(pool) => {
            looker.arm(&pool).map_err(Problem::not_found)?;
            Ok(json!({ "pool": pool, "armed": true }))
        }
        types::Look::WouldGo(request) => {
            let described = described(request).map_err(Problem::malformed)?;
            shown(&looker.would_go(described).await.map_err(Problem::not_found)?)
        }
        types::Look::Shadows(pool) => shown(&looker.shadows(pool.as_deref()).await.map_err(Problem::not_found)?),
    }
}

fn shown(what: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(what).map_err(|error| Problem::refused(error.to_string()))
}

fn described(request: types::Described) -> Result<Described, String> {
    let (host, target) = host_and_target(&request.url)?;
    let field = |field: &String| {
        let (name, value) = field.split_once(':').ok_or_else(|| format!("the field \"{field}\" is not NAME: VALUE"))?;
        Ok((name.trim().to_string(), value.trim().to_string()))
    };
    let client = request.client.map(|ip| ip.parse().map_err(|_| format!("\"{ip}\" is no IP address")));
    Ok(Described {
        method: request.method.unwrap_or_else(|| "GET".to_string()),
        host,
        target,
        fields: request.fields.iter().map(field).collect::<Result<_, String>>()?,
        listener: request.listener,
        client: client.transpose()?,
    })
}

/// Of `http://HOST/PATH?QUERY`, or of a path alone.
fn host_and_target(url: &str) -> Result<(String, String), String> {
    if url.starts_with('/') {
        return Ok((String::new(), url.to_string()));
    }
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or_else(|| format!("\"{url}\" is not http://HOST/PATH, https://HOST/PATH or /PATH"))?;
    let rest = rest.split('#').next().unwrap_or_default();
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(at);
    let target = if target.starts_with('/') { target.to_string() } else { format!("/{target}") };
    if host.is_empty() { Err(format!("\"{url}\" names no host")) } else { Ok((host.to_string(), target)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_urls_apart() {
        let taken = |url| host_and_target(url).unwrap();
        assert_eq!(taken("https://a.test:8443/x?y#z"), ("a.test:8443".into(), "/x?y".into()));
        assert_eq!(taken("http://[::1]?q"), ("[::1]".into(), "/?q".into()));
        assert_eq!(taken("/only"), (String::new(), "/only".into()));
        assert!(["a.test/x", "http:///x", "ftp://a/"].iter().all(|url| host_and_target(url).is_err()));
    }
}
