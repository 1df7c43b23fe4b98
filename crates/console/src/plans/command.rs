//! The command that is equivalent to a plan.

use redeliver_operator::terminal::escape::escape_lines;
use redeliver_operator::terminal::shell::quote_word;

use crate::plans::plan::{ConsolePlan, PlanAction};

/// Maximum number of ids: a command with a longer list is too long to copy.
const IDS_MAX: usize = 500;

/// A command that is equivalent to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanCommand {
    pub(crate) line: String,
    /// True if the command names each message. Otherwise it selects from the messages in the queue when it runs.
    pub(crate) is_exact: bool,
}

/// Builds the command for a plan, with the options that select the account, or returns `None` if no command is
/// equivalent.
pub(crate) fn build_command(plan: &ConsolePlan, connection: &[(&str, &str)]) -> Option<PlanCommand> {
    let mut words = vec!["redeliver".to_owned()];
    let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), quote_word(value)]);
    option("queue", &plan.from);
    let verb = match &plan.action {
        // The page's form rewrote one body, which no jq expression reproduces.
        PlanAction::SendBack { edit: Some(_), .. } => return None,
        // A restore merges several backups: `send` would send a message twice if two of them contain it.
        PlanAction::Restore { .. } => return None,
        PlanAction::SendBack { to, program, new_id, max_generation, .. } => {
            option("to", to);
            if let Some(program) = program {
                option("edit", program);
            }
            option("max-generation", &max_generation.to_string());
            if *new_id {
                words.push("--new-id".to_owned());
            }
            "redrive"
        }
        PlanAction::Delete => {
            option("backup", &format!("redeliver-deleted-{}.jsonl", plan.id));
            "purge"
        }
    };
    words.insert(1, verb.to_owned());
    words.extend(connection.iter().flat_map(|(name, value)| [format!("--{name}"), quote_word(value)]));
    // The command would also send the messages that the expression leaves unchanged.
    let has_program = matches!(plan.action, PlanAction::SendBack { program: Some(_), .. });
    let selected = if has_program { None } else { selection_options(plan) };
    let is_exact = match selected {
        Some(selected) => {
            words.extend(selected);
            plan.selection.iter().any(|(name, _)| name == "id")
        }
        None if plan.messages.len() <= IDS_MAX => {
            words.extend(["--ids".to_owned(), quote_word(&plan.messages.join(","))]);
            true
        }
        None => return None,
    };
    let line = words.join(" ");
    // The copied text must equal the text on the page.
    (escape_lines(&line) == line).then_some(PlanCommand { line, is_exact })
}

/// Returns the options for a selection, or `None` if no option exists for one of its conditions.
fn selection_options(plan: &ConsolePlan) -> Option<Vec<String>> {
    let (mut words, mut filters) = (Vec::new(), Vec::new());
    for (name, value) in &plan.selection {
        match name.as_str() {
            "group" => words.extend(["--group".to_owned(), quote_word(value)]),
            "id" => words.extend(["--ids".to_owned(), quote_word(value)]),
            "type" => filters.push(format!(".error_type == {}", serde_json::Value::from(value.as_str()))),
            "where" => filters.push(value.clone()),
            _ => return None,
        }
    }
    let filter = match &filters[..] {
        [] => None,
        [filter] => Some(filter.clone()),
        filters => Some(filters.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" and ")),
    };
    words.extend(filter.into_iter().flat_map(|filter| ["--where".to_owned(), quote_word(&filter)]));
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq";
    const TO: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";

    fn plan(action: PlanAction, selection: &[(&str, &str)], messages: usize) -> ConsolePlan {
        let selection = selection.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let messages = (0..messages).map(|n| format!("sqs-{n}")).collect();
        ConsolePlan::new(String::new(), FROM, action, "all".to_owned(), selection.collect(), messages)
    }

    fn send_back_action(program: Option<&str>) -> PlanAction {
        PlanAction::SendBack {
            to: TO.to_owned(),
            edit: None,
            program: program.map(str::to_owned),
            new_id: false,
            max_generation: 3,
        }
    }

    #[test]
    fn a_command_repeats_the_selection_or_names_each_message() {
        let redrive = format!("redeliver redrive --queue {FROM} --to {TO}");
        let all = format!("{redrive} --max-generation 3");
        let line =
            |plan: &ConsolePlan| build_command(plan, &[]).map(|command| (command.line, command.is_exact));
        for (selection, options, is_exact) in [
            (&[("group", "21d708b3fca00092")][..], " --group 21d708b3fca00092", false),
            (&[("type", "A \"b\"")], r#" --where '.error_type == "A \"b\""'"#, false),
            (
                &[("type", "A"), ("where", ".a != 'b'")],
                r#" --where '(.error_type == "A") and (.a != '\''b'\'')'"#,
                false,
            ),
            (&[("id", "sqs-7")], " --ids sqs-7", true),
            (&[("q", "text")], " --ids sqs-0,sqs-1", true),
            (&[("tenant", "acme"), ("group", "1")], " --ids sqs-0,sqs-1", true),
            (&[], "", false),
        ] {
            let found = line(&plan(send_back_action(None), selection, 2));
            assert_eq!(found, Some((format!("{all}{options}"), is_exact)), "{selection:?}");
        }
        assert_eq!(
            line(&plan(send_back_action(None), &[("q", "text")], 501)),
            None,
            "no command is equivalent"
        );
        let edited = plan(send_back_action(Some(".body.data.currency = \"EUR\"")), &[("group", "1")], 1);
        let words =
            format!(r#"{redrive} --edit '.body.data.currency = "EUR"' --max-generation 3 --ids sqs-0"#);
        assert_eq!(line(&edited), Some((words, true)), "unchanged messages are not named");
        let hidden = [("where", ".a == \"\u{202e}\"")];
        assert_eq!(
            line(&plan(send_back_action(None), &hidden, 501)),
            None,
            "the user would copy hidden characters"
        );
    }

    #[test]
    fn an_edit_command_passes_new_id_if_the_plan_sets_it() {
        let PlanAction::SendBack { to, edit, program, max_generation, .. } =
            send_back_action(Some(".body.data.a = 1"))
        else {
            unreachable!("send_back returns SendBack")
        };
        let edited = PlanAction::SendBack { to, edit, program, new_id: true, max_generation };
        assert_eq!(
            build_command(&plan(edited, &[], 1), &[]).unwrap().line,
            format!(
                "redeliver redrive --queue {FROM} --to {TO} --edit '.body.data.a = 1' --max-generation 3 --new-id \
                 --ids sqs-0"
            )
        );
    }

    #[test]
    fn a_command_names_up_to_500_messages() {
        let found = build_command(&plan(send_back_action(None), &[("q", "text")], 500), &[]).unwrap();
        let ids = found.line.rsplit_once(" --ids ").unwrap().1;
        assert_eq!((ids.split(',').count(), found.is_exact), (500, true));
    }

    #[test]
    fn a_deletion_command_names_a_backup_and_the_consoles_account() {
        let delete = plan(PlanAction::Delete, &[("group", "1")], 2);
        let found =
            build_command(&delete, &[("profile", "my ops"), ("endpoint-url", "http://127.0.0.1:4566")]);
        let line = format!(
            "redeliver purge --queue {FROM} --backup redeliver-deleted-{}.jsonl --profile 'my ops' --endpoint-url \
             http://127.0.0.1:4566 --group 1",
            delete.id
        );
        assert_eq!(found, Some(PlanCommand { line, is_exact: false }));
    }
}
