# Each target runs one script of tools/, which can be called without make too (on Windows:
# `py tools\book.py`). The scripts make the environment when it is missing or out of date.
# Written for GNU make 3.81, which macOS has.

# A Python that runs, 3.11 first; being found on the path is not enough (version managers
# put stand-ins there that fail). The scripts check the version and say what is needed.
PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	if $$p -c "" >/dev/null 2>&1; then echo $$p; break; fi; done)
ifeq ($(PYTHON),)
$(error No Python was found: install Python 3.11, 3.12 or 3.13 and run make again)
endif

.PHONY: help book test notebooks lab serve lint lock bench mutants clean

help: ## list the targets
	@$(PYTHON) tools/help.py

book: ## make the environment and build the site into _build/html; a warning is an error
	@$(PYTHON) tools/book.py $(ARGS)

test: ## run every check and print a summary; ONLY="lint unit" runs some phases
	@$(PYTHON) tools/test.py $(ONLY) $(ARGS)

notebooks: ## execute the notebooks and store clean outputs; NB=ch03 runs one
	@$(PYTHON) tools/notebooks.py $(NB) $(ARGS)

lab: ## open the notebooks in JupyterLab
	@$(PYTHON) tools/lab.py $(ARGS)

serve: ## serve the built site on this machine; ARGS="--port 9000" names a port
	@$(PYTHON) tools/serve.py $(ARGS)

lint: ## formatter, linter, types and import layers; ARGS=--fix mends what it can
	@$(PYTHON) tools/lint.py $(ARGS)

lock: ## resolve requirements.txt anew; ARGS=--upgrade takes newer versions
	@$(PYTHON) tools/lock.py $(ARGS)

bench: ## measure our modules against others
	@$(PYTHON) tools/bench.py $(ARGS)

mutants: ## plant 200 generated faults and see which of them the tests let pass
	@$(PYTHON) tools/mutants.py $(ARGS)

clean: ## remove what was built; ARGS=--all removes the environment too
	@$(PYTHON) tools/clean.py $(ARGS)
