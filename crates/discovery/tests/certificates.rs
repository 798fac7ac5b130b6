//! Certificates for servers of tests, each by an authority that only its test trusts.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// Writes the certificate of a server by an authority of its own: `ca.pem`, `server.pem` and `server.key`.
pub fn certify(folder: &Path, ip: IpAddr, authority: &str) {
    let (own, key) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, authority);
    let authority = params.self_signed(&own).expect("a certificate");
    let issuer = Issuer::from_params(&params, &own);
    let server = CertificateParams::new(vec![ip.to_string()]).expect("a name");
    let server = server.signed_by(&key, &issuer).expect("a certificate");
    let write = |file: &str, text: String| fs::write(folder.join(file), text).expect("it can be written");
    write("ca.pem", authority.pem());
    write("server.pem", server.pem());
    write("server.key", key.serialize_pem());
}
