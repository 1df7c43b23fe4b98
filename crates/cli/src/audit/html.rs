//! stub
pub(super) struct Page;
impl Page {
    pub(super) fn new(_reveal: bool) -> Self {
        Self
    }
}
impl super::view::View for Page {}
