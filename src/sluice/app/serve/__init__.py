"""``sluice serve``: the pipeline as a service, with a configuration file, a REST API and a page.

FastAPI and uvicorn (extra ``serve``) carry the API: both are widely kept, and FastAPI writes the OpenAPI document from
the same types that check the requests. Only the modules that need them import them.
"""
