from bridge import question_table


class QuestionTable(question_table.QuestionTableTool):
    """Keeps question tables by name."""
