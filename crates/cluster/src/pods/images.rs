//! Programs of this machine by the images that have them.

/// Images and their programs. All of these are linked statically, as they see only the root of their pod.
const IMAGES: [(&str, &str); 2] = [("echo-basic", "echo-basic"), ("coredns", "coredns")];

/// Returns the program of an image such as `registry.example/group/name:tag`.
pub fn program(image: &str) -> Option<&'static str> {
    let name = image.rsplit('/').next()?.split([':', '@']).next()?;
    IMAGES.iter().find(|(known, _)| *known == name).map(|(_, program)| *program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_without_registry_and_tag() {
        assert_eq!(program("registry.example:5000/group/echo-basic:v1.6.0"), Some("echo-basic"));
        assert_eq!(program("registry.example/other:v1"), None);
    }
}
