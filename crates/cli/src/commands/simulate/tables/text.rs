//! Renders tables for a terminal. Tables that are too wide continue below.

use super::section::Section;
use redeliver_operator::terminal::units::format_table;

/// Maximum line length, in characters.
const WIDTH: usize = 100;

pub(super) fn render_tables(verdict: &str, scenario: &str, sections: &[Section]) -> String {
    let tables = sections.iter().map(|section| {
        let parts: Vec<_> =
            split_columns(section).into_iter().map(|columns| render_part(section, &columns)).collect();
        let note = section.note.as_ref().map_or(String::new(), |note| format!("{note}\n"));
        format!("{}\n{}{note}", section.title, parts.join("\n"))
    });
    format!("{verdict}\n{scenario}\n\n{}", tables.collect::<Vec<_>>().join("\n"))
}

/// Splits the columns of a wide table into parts that fit, each of which repeats the row names.
fn split_columns(section: &Section) -> Vec<Vec<usize>> {
    let width = |column: usize| {
        let cells = section.rows.iter().map(|row| row[column].chars().count());
        cells.chain([section.columns[column].chars().count()]).max().unwrap_or(0) + 2
    };
    let names: Vec<_> = (0..section.names).collect();
    let names_width: usize = names.iter().copied().map(width).sum();
    let (mut parts, mut taken) = (vec![names.clone()], names_width);
    for column in section.names..section.columns.len() {
        let last =
            parts.last_mut().filter(|part| part.len() == names.len() || taken + width(column) <= WIDTH);
        match last {
            Some(part) => part.push(column),
            None => {
                parts.push(names.iter().copied().chain([column]).collect());
                taken = names_width;
            }
        }
        taken += width(column);
    }
    parts
}

fn render_part(section: &Section, columns: &[usize]) -> String {
    let select = |cells: &[String]| columns.iter().map(|column| cells[*column].clone()).collect::<Vec<_>>();
    let header = select(&section.columns);
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    format_table(&header, section.rows.iter().map(|row| select(row)), section.names..columns.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_wider_than_the_terminal_continues_below_with_row_names() {
        let columns = ["attempt", &"a".repeat(40), &"b".repeat(40), &"c".repeat(40), &"d".repeat(120), "e"];
        let columns = columns.map(str::to_owned).to_vec();
        let rows = vec![(0..6).map(|column| column.to_string()).collect()];
        let section = Section { title: "t".to_owned(), names: 1, columns, rows, note: None };
        assert_eq!(split_columns(&section), [vec![0, 1, 2], vec![0, 3], vec![0, 4], vec![0, 5]]);
        let second = render_part(&section, &[0, 3]);
        assert_eq!(
            second.lines().map(str::trim_end).collect::<Vec<_>>(),
            [format!(" attempt  {}", "c".repeat(40)), format!(" 0        {}3", " ".repeat(39)),]
        );
    }
}
