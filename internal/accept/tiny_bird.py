"""Writes a database laid out like BIRD's dev part, for servers of sqlgym.

    python tiny_bird.py FOLDER

BIRD itself is tens of gigabytes. This is one shop of two tables and twenty
questions, invented here; agentenv-sqlgym serves them as items 9428 to 9447.
"""

import json
import os
import sqlite3
import sys

ITEMS = [("milk", 1.2), ("bread", 2.5), ("rice", 3.0), ("coffee", 6.4), ("honey", 5.1)]
SALES = [(1, 1, 12), (2, 2, 7), (3, 1, 4), (4, 5, 1), (5, 3, 9), (6, 4, 2)]


def questions():
    for n, (name, _) in enumerate(ITEMS):
        yield f"What does {name} cost?", f"SELECT price FROM item WHERE name = '{name}'"
        yield f"How many units of {name} were sold?", f"SELECT SUM(units) FROM sale WHERE item_id = {n + 1}"
        yield f"How many items are dearer than {name}?", (
            f"SELECT COUNT(*) FROM item WHERE price > (SELECT price FROM item WHERE name = '{name}')"
        )
        yield f"Which items come after {name} in the alphabet?", f"SELECT name FROM item WHERE name > '{name}'"


def main(folder):
    dev = os.path.join(folder, "dev")
    place = os.path.join(dev, "dev_databases", "shop")
    os.makedirs(place)
    database = sqlite3.connect(os.path.join(place, "shop.sqlite"))
    database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
    database.execute("CREATE TABLE sale (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES item (id), units INTEGER)")
    database.executemany("INSERT INTO item (name, price) VALUES (?, ?)", ITEMS)
    database.executemany("INSERT INTO sale VALUES (?, ?, ?)", SALES)
    database.commit()
    asked = []
    for question, sql in questions():
        database.execute(sql)  # the reference query must run
        asked.append({"db_id": "shop", "question": question, "evidence": "", "SQL": sql, "difficulty": "simple"})
    database.close()
    tables = {
        "db_id": "shop",
        "table_names": ["item", "sale"],
        "column_names": [[-1, "*"], [0, "id"], [0, "name"], [0, "price"], [1, "id"], [1, "item_id"], [1, "units"]],
        "primary_keys": [1, 4],
        "foreign_keys": [[5, 1]],
    }
    for name, value in (("dev.json", asked), ("dev_tables.json", [tables])):
        with open(os.path.join(dev, name), "w") as f:
            json.dump(value, f)


if __name__ == "__main__":
    main(sys.argv[1])
