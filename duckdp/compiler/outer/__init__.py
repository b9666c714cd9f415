"""A query over private answers: taken apart into releases, and a text over them that any DuckDB may run.

::

    text --apart.take_apart--> releases (Query each), outer tree
         --several.plan_parts--> Plans with their shares of what was typed --several.SeveralTask--> one charge
         --outer_text.printed_outer--> SELECT over the released tables, for the analyst's own instance

The list of releases is read off the text before any data (rules of the gate, section 7): a SELECT that aggregates over
private rows without the unit among its keys is a release; what gives rows of units is read where it is used; all else
is post-processing of released figures, and runs where no private row is.
"""
