//! What a stack says of its queues.

use std::collections::BTreeMap;

use super::ConnectionError;

/// A stack of ours.
#[derive(Clone, Debug)]
pub struct Stack {
    pub(super) name: String,
    pub(super) outputs: BTreeMap<String, String>,
}

impl Stack {
    /// The URL of the queue that producers send to.
    ///
    /// # Errors
    /// If the stack has no such output.
    pub fn source_queue_url(&self) -> Result<&str, ConnectionError> {
        self.output("SourceQueueUrl")
    }

    /// The URL of the queue where failed messages wait for their retry to be scheduled; with the strategy `visibility` there
    /// is none.
    #[must_use]
    pub fn intermediate_dlq_url(&self) -> Option<&str> {
        self.output("IntermediateDlqUrl").ok()
    }

    /// The URL of the queue where given-up messages wait for their annotation.
    ///
    /// # Errors
    /// If the stack has no such output.
    pub fn annotation_queue_url(&self) -> Result<&str, ConnectionError> {
        self.output("AnnotationQueueUrl")
    }

    /// The URL of the queue of what was given up.
    ///
    /// # Errors
    /// If the stack has no such output.
    pub fn final_dlq_url(&self) -> Result<&str, ConnectionError> {
        self.output("FinalDlqUrl")
    }

    fn output(&self, output: &'static str) -> Result<&str, ConnectionError> {
        let missing = || ConnectionError::Output { name: self.name.clone(), output };
        self.outputs.get(output).map(String::as_str).ok_or_else(missing)
    }
}
