-- sysbench script: joins with a few rows picked by ORDER BY RAND(), as for pages with "you may also like".
--
-- Each statement sorts hundreds of rows with texts in memory: sort buffers and temporary tables are allocated and freed
-- in every connection's thread. On such statements one allocator was reported to take ten times as long as another.

sysbench.cmdline.options = {
   rows = {"Rows of the larger table", 4000},
   kinds = {"Rows of the smaller table", 50},
}

local join = [[SELECT item.id, item.name, kind.title, item.note FROM item JOIN kind ON item.kind = kind.id
   WHERE kind.id BETWEEN %d AND %d ORDER BY RAND() LIMIT 12]]

function prepare()
   local connection = sysbench.sql.driver():connect()
   local rows, kinds = sysbench.opt.rows, sysbench.opt.kinds
   connection:query("CREATE TABLE kind (id INT PRIMARY KEY, title VARCHAR(60)) ENGINE=InnoDB")
   -- No TEXT: such temporary tables would go to files.
   connection:query([[CREATE TABLE item (id INT PRIMARY KEY, kind INT, name VARCHAR(80), note VARCHAR(400), KEY (kind))
      ENGINE=InnoDB]])
   connection:query(string.format("INSERT INTO kind SELECT seq, CONCAT('kind ', seq) FROM seq_1_to_%d", kinds))
   connection:query(string.format([[INSERT INTO item
      SELECT seq, 1 + seq %% %d, CONCAT('name ', seq), REPEAT('x', seq %% 400) FROM seq_1_to_%d]], kinds, rows))
end

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   local first = sysbench.rand.uniform(1, sysbench.opt.kinds - 9)
   connection:query(string.format(join, first, first + 9))
end

function thread_done()
   connection:disconnect()
end
