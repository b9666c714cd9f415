"""From the analyst's text to SQL of our own: parse, translate, validate, plan, emit.

One stage, one file, one public function; each stage takes only the frozen type of the stage before it::

    text --parse.parse_statement--> statement --select.read_select--> Query --plan.make_plan--> Plan
         --emit.emit--> PrivateQuery(sql, parameters)
"""
